import { timeText } from "../clock/time.ts";
import { isId } from "../id.ts";
import type { ConditionName } from "../stats/condition.ts";
import { taskEnvelope } from "../task/envelope.ts";
import type { Task } from "../task/task.ts";
import { traceHeaders } from "../task/trace.ts";
import { type Attempt, DELIVERY_KINDS, type DeliveryKind } from "./delivery.ts";
import { type SignedMessage, signStandardWebhook, signWebhook } from "./signature.ts";
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

/** Method, body and freshly signed headers (webhooks.md): a pure function, so that a request can be shown again. */
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

/** As {@link signedRequest}, for any message that its receiver identifies by that id. */
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

/** The facts of the request that an attempt tried to send, next to the attempt's facts. */
export type SentFacts = Omit<WebhookFacts, "number" | "startedAt">;

/** Signed with the present secrets, because earlier ones are not kept. Null if nothing was sent. */
export function sentRequest(attempt: Attempt, facts: SentFacts): WebhookRequest | null {
  const { number, startedAt } = attempt;
  if (startedAt === null || !hasGoneOut(attempt)) return null;
  return webhookRequest({ ...facts, number, startedAt });
}

/** True for an attempt that has sent something, as far as is known. */
export function hasGoneOut({ startedAt, outcome, error, address }: Attempt): boolean {
  if (startedAt === null || outcome === "refused") return false;
  // A crash leaves no address, and may have come after the request was sent.
  const isUnsent = outcome !== null && outcome !== "interrupted" && address === null;
  return !isUnsent || error === null;
}

/** A webhook to the operator. */
export interface OperatorEvent {
  readonly type: ConditionName | "delivery.given_up" | "daemon.started";
  /** Whether a condition began or ended; an event without a duration happened. */
  readonly status: "began" | "ended" | "happened";
  readonly time: number;
  /** When the condition began; null for what does not last. */
  readonly since: number | null;
  /** The host, the type or the account that it is about; null for the daemon itself. */
  readonly subject: string | null;
  /** One sentence without a full stop. */
  readonly what: string;
  /** How to fix it, without a full stop; null if nothing has to be fixed. */
  readonly remedy: string | null;
  /** How many webhooks were given up, by host; null for other types. */
  readonly hosts: readonly HostCount[] | null;
}

export interface HostCount {
  readonly host: string;
  readonly count: number;
}

/** The source of an event; its id is the same at every attempt. */
export interface EventSource {
  readonly id: string;
  readonly node: string;
}

export function eventBody(event: OperatorEvent, { id, node }: EventSource): string {
  const { type, status, subject, what, remedy, hosts } = event;
  const time = timeText(event.time);
  const since = event.since === null ? null : timeText(event.since);
  const common = { id, type, status, time, since, node, subject, what, remedy };
  return JSON.stringify(hosts === null ? common : { ...common, hosts });
}

/** The request of one attempt to send an event, signed as a task's postback. */
export function eventRequest(
  body: string,
  attempt: Readonly<Record<"id" | "secret", string> & Record<"number" | "startedAt", number>>,
): WebhookRequest {
  const { id, secret, ...rest } = attempt;
  const facts = { ...rest, kind: "postback", webhookSecret: secret } as const;
  return namedRequest(id, { ...facts, webhookSecretNext: null, traceText: null }, body);
}
