import type { Attempt } from "./delivery.ts";
import { webhookRequest, type WebhookFacts, type WebhookRequest } from "./webhook-request.ts";

/** The facts of what an attempt tried to send, besides those of the attempt. */
export type SentFacts = Omit<WebhookFacts, "number" | "startedAt">;

/**
 * The request that an attempt sent, signed with the account's present secrets, because earlier ones are not kept. Null
 * when nothing was sent, not yet or never.
 */
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
