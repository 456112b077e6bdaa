import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";

import { HttpMessages, headerOf, type HttpMessage } from "./http-messages.ts";

/** A webhook as it arrived. */
export interface ReceivedWebhook {
  readonly kind: "postback" | "pingback";
  readonly taskId: string;
  /** What `X-Signature` signs: a postback's raw body, a pingback's full URL as requested. */
  readonly signed: Buffer;
  /** The value of `X-Signature`; empty where there is none. */
  readonly signature: string;
  /** `X-Attempt`. */
  readonly attempt: number;
  readonly head: string;
  readonly body: Buffer;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
}

/** The status that a webhook is answered with. */
export type StatusRule = (webhook: ReceivedWebhook) => 200 | 500;

/** How a receiver answers, and where. */
export interface ReceiverOptions {
  /** 200 to all unless given. */
  readonly statusOf?: StatusRule;
  /** Any free one unless given. */
  readonly port?: number;
}

const ANSWERS = {
  200: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
  500: "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
};
const WEBHOOK_ID = /^([0-9a-f-]{36})-(postback|pingback)$/;

/** The other side of webhooks, on 127.0.0.1: tells of each one and answers it. */
export class WebhookReceiver {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly port: number;

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.port = port;
    server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  /**
   * Tells `onWebhook` of each webhook before answering it. What is no webhook gets no answer. Rejects when the port is
   * taken.
   */
  static async open(
    onWebhook: (webhook: ReceivedWebhook) => void,
    { statusOf = () => 200, port = 0 }: ReceiverOptions = {},
  ): Promise<WebhookReceiver> {
    const onEach = (webhook: ReceivedWebhook): string => {
      onWebhook(webhook);
      return ANSWERS[statusOf(webhook)];
    };
    const server = createServer({ noDelay: true }, (socket) => serve(socket, onEach));
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port to listen on");
    return new WebhookReceiver(server, address.port);
  }

  /** Where it listens, without a path. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}

function serve(socket: Socket, answerTo: (webhook: ReceivedWebhook) => string): void {
  const messages = new HttpMessages();
  socket.on("data", (chunk: Buffer) => {
    messages.read(chunk, (message) => {
      const webhook = toWebhook(message);
      if (webhook === null) {
        socket.destroy();
        return;
      }
      socket.write(answerTo(webhook));
    });
  });
  // A sender that dies in the middle of an attempt sends again; there is nothing to do here.
  socket.on("error", () => socket.destroy());
}

/** The webhook that an HTTP request is; null when it is none. */
export function toWebhook({ head, body }: HttpMessage): ReceivedWebhook | null {
  const id = WEBHOOK_ID.exec(headerOf(head, "webhook-id") ?? "");
  const taskId = id?.[1];
  if (taskId === undefined) return null;
  const kind = id?.[2] === "pingback" ? "pingback" : "postback";
  const signed = kind === "postback" ? body : Buffer.from(requestedUrl(head));
  return {
    ...{ kind, taskId, signed, head, body },
    signature: headerOf(head, "x-signature") ?? "",
    attempt: Number(headerOf(head, "x-attempt")),
    receivedAt: Date.now(),
  };
}

function requestedUrl(head: string): string {
  const target = head.split(" ", 2)[1] ?? "";
  return `http://${headerOf(head, "host") ?? ""}${target}`;
}

/** True when the webhook carries the signature that `secret` makes. Node's own HMAC, none of postbackd's code. */
export function isSignedWith(secret: string, { signed, signature }: ReceivedWebhook): boolean {
  const hex = createHmac("sha256", Buffer.from(secret, "utf8")).update(signed).digest("hex");
  return signature === `sha256=${hex}`;
}
