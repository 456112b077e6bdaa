import type { Task } from "../task/task.ts";
import type { Attempt, DeliveryKind } from "./delivery.ts";
import { webhookRequest, type WebhookRequest } from "./webhook-request.ts";

/** Of what an attempt was a try. */
export interface SentFacts {
  readonly kind: DeliveryKind;
  readonly url: string;
  readonly task: Task;
  readonly webhookSecret: string;
  readonly webhookSecretNext: string | null;
}

/**
 * What an attempt sent, signed with the account's secrets of now: those of then are not kept. Null where nothing went
 * out: nothing yet, or never.
 */
export function sentRequest(attempt: Attempt, facts: SentFacts): WebhookRequest | null {
  const { number, startedAt } = attempt;
  if (startedAt === null || !hasGoneOut(attempt)) return null;
  return webhookRequest({ ...facts, number, startedAt });
}

/** True for an attempt that has sent something, as far as is known. */
export function hasGoneOut({ startedAt, outcome, error, address }: Attempt): boolean {
  if (startedAt === null || outcome === "refused") return false;
  // A crash leaves no address, and may have come after the request had gone out.
  const isUnsent = outcome !== null && outcome !== "interrupted" && address === null;
  return !isUnsent || error === null;
}
