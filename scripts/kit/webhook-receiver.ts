import { createHmac } from "node:crypto";

import { headerOf, type HttpMessage } from "./http-messages.ts";
import { EMPTY_ANSWERS, MessageServer } from "./message-server.ts";

/** A webhook as it arrived. */
export interface ReceivedWebhook {
  readonly kind: "postback" | "pingback";
  readonly taskId: string;
  /** The text that `X-Signature` signs: a postback's raw body, a pingback's full URL as requested. */
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

/** Fails so many attempts of each webhook of the tasks whose id ends like this, and accepts what follows. */
export function failingAtFirst(idEnd: RegExp, attempts: number): StatusRule {
  return ({ taskId, attempt }) => (idEnd.test(taskId) && attempt <= attempts ? 500 : 200);
}

/** The URLs for the webhooks of a task. */
export interface WebhookUrls {
  readonly postbackUrl: string;
  readonly pingbackUrl: string;
}

const COMPLETED_AT = /"completed_at":"([^"]+)"/;
const WEBHOOK_ID = /^([0-9a-f-]{36})-(postback|pingback)$/;

/**
 * The other side of webhooks, on 127.0.0.1: tells `onWebhook` of each before answering it, with 200 unless `statusOf`
 * says otherwise, `afterMs` later where that is given. What is no webhook gets no answer. Rejects when the port is taken.
 */
export function openReceiver(
  onWebhook: (webhook: ReceivedWebhook, status: 200 | 500) => void,
  {
    statusOf = () => 200,
    port = 0,
    afterMs = 0,
  }: { readonly statusOf?: StatusRule; readonly port?: number; readonly afterMs?: number } = {},
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
      const answer = (): unknown => socket.write(EMPTY_ANSWERS[status]);
      if (afterMs === 0) answer();
      else setTimeout(answer, afterMs);
    },
    { port },
  );
}

/** The webhooks of a task, as they go to a receiver. */
export function webhookUrls(receiver: MessageServer): WebhookUrls {
  return {
    postbackUrl: `${receiver.url}/postback`,
    pingbackUrl: `${receiver.url}/pingback?id=$id`,
  };
}

/** Reads the webhook in an HTTP request; null when it is none. */
export function toWebhook({ head, body }: HttpMessage): ReceivedWebhook | null {
  const id = WEBHOOK_ID.exec(headerOf(head, "webhook-id") ?? "");
  const taskId = id?.[1];
  if (taskId === undefined) return null;
  const kind = id?.[2] === "pingback" ? "pingback" : "postback";
  const signed = kind === "postback" ? body : Buffer.from(requestedUrl(head));
  return {
    kind,
    taskId,
    signed,
    head,
    body,
    signature: headerOf(head, "x-signature") ?? "",
    attempt: Number(headerOf(head, "x-attempt")),
    receivedAt: Date.now(),
  };
}

function requestedUrl(head: string): string {
  const target = head.split(" ", 2)[1] ?? "";
  return `http://${headerOf(head, "host") ?? ""}${target}`;
}

/** When the task of an envelope was completed, in epoch milliseconds; NaN where it does not say. */
export function readCompletedAt(envelope: string): number {
  return Date.parse(COMPLETED_AT.exec(envelope)?.[1] ?? "");
}

/** True when the webhook carries the signature that `secret` makes. Node's own HMAC, none of postbackd's code. */
export function isSignedWith(secret: string, { signed, signature }: ReceivedWebhook): boolean {
  const hex = createHmac("sha256", Buffer.from(secret, "utf8")).update(signed).digest("hex");
  return signature === `sha256=${hex}`;
}

/** One signature in so many is looked at: each takes 10 µs of a core that the daemon could use. */
export const VERIFIED_EVERY = 50;

/** Signatures of a sample of what arrives. */
export interface SignatureCount {
  /** Looked at: one in {@link VERIFIED_EVERY}. */
  readonly verified: number;
  readonly badSignatures: number;
}

/** Counts webhooks and looks at the signatures of some. */
export class SignatureSample {
  readonly #secret: string;
  #webhooks = 0;
  #verified = 0;
  #badSignatures = 0;

  constructor(secret: string) {
    this.#secret = secret;
  }

  take(webhook: ReceivedWebhook): void {
    if (++this.#webhooks % VERIFIED_EVERY > 0) return;
    this.#verified++;
    if (!isSignedWith(this.#secret, webhook)) this.#badSignatures++;
  }

  /** How many were taken. */
  get webhooks(): number {
    return this.#webhooks;
  }

  get count(): SignatureCount {
    return { verified: this.#verified, badSignatures: this.#badSignatures };
  }
}
