import { isId } from "../id.ts";
import { taskEnvelope } from "../task/envelope.ts";
import type { Task } from "../task/task.ts";
import { traceHeaders } from "../task/trace.ts";
import { DELIVERY_KINDS, type DeliveryKind } from "./delivery.ts";
import { signStandardWebhook, signWebhook, type SignedMessage } from "./signature.ts";
import type { WebhookTarget } from "./webhook-url.ts";

/** One attempt of a delivery, as far as its request depends on it. */
export interface WebhookFacts {
  readonly kind: DeliveryKind;
  /** In normal form. */
  readonly url: string;
  readonly task: Task;
  readonly number: number;
  /** The time in the attempt's Standard Webhooks signature. */
  readonly startedAt: number;
  readonly webhookSecret: string;
  readonly webhookSecretNext: string | null;
  /** The trace of the task as it is stored; null for none. No signature covers it. */
  readonly traceText: string | null;
}

/** The request of one attempt. */
export interface WebhookRequest<Body extends SignedMessage = string> {
  readonly method: "POST" | "GET";
  readonly headers: Readonly<Record<string, string>>;
  /** Null for a pingback. */
  readonly body: Body | null;
}

/** A request to a target. The sender adds Host, Content-Length and Connection itself. */
export interface SendRequest extends WebhookRequest<string | Uint8Array> {
  readonly target: WebhookTarget;
  /** The account whose turn the look-up takes, and whose connections are used; the daemon's own unless given. */
  readonly accountId?: number;
}

/**
 * The request of one attempt: method, body, and freshly signed headers (contract §5). A pure function, so that the
 * request of an attempt can be shown again from what is stored.
 */
export function webhookRequest(facts: WebhookFacts): WebhookRequest {
  return signedRequest(facts, signedMessage(facts));
}

/** As {@link webhookRequest}, with the message as text or as its bytes: it need not be made of the task again. */
export function signedRequest<Body extends SignedMessage>(
  facts: Omit<WebhookFacts, "task"> & { readonly task: Pick<Task, "id"> },
  message: Body,
): WebhookRequest<Body> {
  return namedRequest(webhookId(facts.task.id, facts.kind), facts, message);
}

/** As {@link signedRequest}, for whatever is named by that id to its receiver. */
export function namedRequest<Body extends SignedMessage>(
  id: string,
  facts: Omit<WebhookFacts, "task" | "url">,
  message: Body,
): WebhookRequest<Body> {
  const { kind, number, webhookSecret: secret, webhookSecretNext: next } = facts;
  const isPostback = kind === "postback";
  const body = isPostback ? message : null;
  const timestamp = Math.floor(facts.startedAt / 1000);
  const secrets = next === null ? [secret] : [secret, next];
  const headers = {
    ...(isPostback ? { "content-type": "application/json" } : {}),
    "user-agent": "postbackd-webhooks/1",
    "x-signature": signWebhook(message, secret),
    ...(next === null ? {} : { "x-signature-next": signWebhook(message, next) }),
    "x-attempt": String(number),
    "webhook-id": id,
    "webhook-timestamp": String(timestamp),
    ...traceHeaders(facts.traceText),
    "webhook-signature": signStandardWebhook({ id, timestamp, body: body ?? "" }, secrets),
  };
  return { method: isPostback ? "POST" : "GET", headers, body };
}

/** The message that `X-Signature` signs: a postback's raw body, a pingback's URL as requested. */
export function signedMessage(facts: Pick<WebhookFacts, "kind" | "url" | "task">): string {
  return facts.kind === "postback" ? taskEnvelope(facts.task) : facts.url;
}

/** The id that names a delivery to its receiver, the same at every attempt. */
export function webhookId(taskId: string, kind: DeliveryKind): string {
  return `${taskId}-${kind}`;
}

/** The delivery that an id names; null where it names none. */
export function parseWebhookId(
  id: string,
): { readonly taskId: string; readonly kind: DeliveryKind } | null {
  for (const kind of DELIVERY_KINDS) {
    const taskId = id.slice(0, -1 - kind.length);
    if (isId(taskId) && id === webhookId(taskId, kind)) return { taskId, kind };
  }
  return null;
}
