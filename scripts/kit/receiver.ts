import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type ListenOptions, type Server, type Socket } from "node:net";

import { headerOf, HttpMessages, type HttpMessage } from "./http.ts";

/** Responses without a body. */
export const EMPTY_ANSWERS = {
  200: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
  500: "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
} as const;

/** The origin of a message. */
interface MessageSource {
  /** The response is written to it. */
  readonly socket: Socket;
  /** When the first byte of the message came, in epoch milliseconds. */
  readonly firstByteAt: number;
}

type TakeMessage = (message: HttpMessage, source: MessageSource) => void;

/** Receives the HTTP messages of all its connections; `take` writes the responses. */
export class MessageServer {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets: ReadonlySet<Socket>;

  private constructor(server: Server, port: number, sockets: ReadonlySet<Socket>) {
    this.#server = server;
    this.port = port;
    this.#sockets = sockets;
  }

  /** Listens on a free port of 127.0.0.1 unless given another place. Rejects if the port is taken. */
  static async open(take: TakeMessage, where: ListenOptions = {}): Promise<MessageServer> {
    const sockets = new Set<Socket>();
    const server = createServer({ noDelay: true }, (socket) => {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
      serve(socket, take);
    });
    return new MessageServer(server, await listen(server, where), sockets);
  }

  /** Its base URL, without a path. */
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

function serve(socket: Socket, take: TakeMessage): void {
  const messages = new HttpMessages();
  let begunAt: number | null = null;
  socket.on("data", (chunk: Buffer) => {
    // The first of several chunks counts.
    begunAt ??= Date.now();
    const firstByteAt = begunAt;
    messages.read(chunk, (message) => {
      begunAt = null;
      take(message, { socket, firstByteAt });
    });
  });
  // A sender that dies or aborts an attempt sends it again.
  socket.on("error", () => socket.destroy());
}

/** Makes a server listen, on a free port of 127.0.0.1 unless given another place, and returns the port. */
export async function listen(server: Server, where: ListenOptions = {}): Promise<number> {
  server.listen({ host: "127.0.0.1", port: 0, ...where });
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port to listen on");
  return address.port;
}

export interface ReceivedWebhook {
  readonly kind: "postback" | "pingback";
  readonly taskId: string;
  /** The text that `X-Signature` signs: a postback's raw body, a pingback's full URL as requested. */
  readonly signed: Buffer;
  /** The value of `X-Signature`; empty without one. */
  readonly signature: string;
  /** `X-Attempt`. */
  readonly attempt: number;
  readonly head: string;
  readonly body: Buffer;
  /** Epoch milliseconds. */
  readonly receivedAt: number;
}

export type StatusRule = (webhook: ReceivedWebhook) => 200 | 500;

/** Fails the first `attempts` attempts of each webhook of the tasks whose id ends like this. */
export function failingAtFirst(idEnd: RegExp, attempts: number): StatusRule {
  return ({ taskId, attempt }) => (idEnd.test(taskId) && attempt <= attempts ? 500 : 200);
}

/**
 * A receiver of webhooks on 127.0.0.1. It calls `onWebhook` before it responds, with 200 unless `statusOf` returns
 * another status. A request that is not a webhook gets no response. Rejects if the port is taken.
 */
export function openReceiver(
  onWebhook: (webhook: ReceivedWebhook, status: 200 | 500) => void,
  {
    statusOf = () => 200,
    port = 0,
  }: { readonly statusOf?: StatusRule; readonly port?: number } = {},
): Promise<MessageServer> {
  return MessageServer.open(
    (message, { socket }) => {
      const webhook = toWebhook(message);
      if (webhook === null) {
        socket.destroy();
        return;
      }
      const status = statusOf(webhook);
      onWebhook(webhook, status);
      socket.write(EMPTY_ANSWERS[status]);
    },
    { port },
  );
}

/** The URLs for the webhooks of a task. */
export interface WebhookUrls {
  readonly postbackUrl: string;
  readonly pingbackUrl: string;
}

export function webhookUrls({ url }: MessageServer): WebhookUrls {
  return { postbackUrl: `${url}/postback`, pingbackUrl: `${url}/pingback?id=$id` };
}

const WEBHOOK_ID = /^([0-9a-f-]{36})-(postback|pingback)$/;

/** Reads the webhook in an HTTP request; null if it is not a webhook. */
export function toWebhook({ head, body }: HttpMessage): ReceivedWebhook | null {
  const id = WEBHOOK_ID.exec(headerOf(head, "webhook-id") ?? "");
  const taskId = id?.[1];
  if (taskId === undefined) return null;
  const kind = id?.[2] === "pingback" ? "pingback" : "postback";
  const target = head.split(" ", 2)[1] ?? "";
  const url = `http://${headerOf(head, "host") ?? ""}${target}`;
  return {
    kind,
    taskId,
    signed: kind === "postback" ? body : Buffer.from(url),
    head,
    body,
    signature: headerOf(head, "x-signature") ?? "",
    attempt: Number(headerOf(head, "x-attempt")),
    receivedAt: Date.now(),
  };
}

/** True if the webhook carries the signature that `secret` makes, by Node's own HMAC and none of postbackd's code. */
export function isSignedWith(secret: string, { signed, signature }: ReceivedWebhook): boolean {
  const hex = createHmac("sha256", Buffer.from(secret, "utf8")).update(signed).digest("hex");
  return signature === `sha256=${hex}`;
}
