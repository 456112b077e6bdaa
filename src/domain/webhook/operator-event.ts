import { timeText } from "../clock/time.ts";
import type { ConditionName } from "../stats/condition.ts";
import { namedRequest, type WebhookRequest } from "./webhook-request.ts";

/** Something that the operator is told of by a webhook of his own. */
export interface OperatorEvent {
  readonly type: ConditionName | "delivery.given_up" | "daemon.started";
  /** Of a condition, whether it began or ended; whatever does not last happened. */
  readonly status: "began" | "ended" | "happened";
  readonly time: number;
  /** When the condition began; null for what does not last. */
  readonly since: number | null;
  /** The host, the type or the account that it is about; null for the daemon itself. */
  readonly subject: string | null;
  /** One sentence without a full stop. */
  readonly what: string;
  /** How to mend it, without a full stop; null where there is nothing to mend. */
  readonly remedy: string | null;
  /** How many webhooks were given up, by host; null for other types. */
  readonly hosts: readonly HostCount[] | null;
}

export interface HostCount {
  readonly host: string;
  readonly count: number;
}

/** Where an event comes from; its id is the same at every attempt to tell it. */
export interface EventSource {
  readonly id: string;
  /** The name of the daemon. */
  readonly node: string;
}

/** The body of an event. */
export function eventBody(event: OperatorEvent, { id, node }: EventSource): string {
  const { type, status, subject, what, remedy, hosts } = event;
  const time = timeText(event.time);
  const since = event.since === null ? null : timeText(event.since);
  const common = { id, type, status, time, since, node, subject, what, remedy };
  return JSON.stringify(hosts === null ? common : { ...common, hosts });
}

/** The request of one attempt to tell an event, signed as a task's postback is. */
export function eventRequest(
  body: string,
  attempt: Readonly<Record<"id" | "secret", string> & Record<"number" | "startedAt", number>>,
): WebhookRequest {
  const { id, secret, ...rest } = attempt;
  const facts = { ...rest, kind: "postback", webhookSecret: secret } as const;
  return namedRequest(id, { ...facts, webhookSecretNext: null, traceText: null }, body);
}
