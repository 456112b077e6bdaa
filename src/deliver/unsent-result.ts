import { parseAddress } from "../domain/address/address.ts";
import type { AttemptResult } from "../domain/webhook/delivery.ts";
import type { UrlRefusal } from "../domain/webhook/webhook-url.ts";

/** The ends of attempts about which the sender reports nothing. */

const NO_PHASES = { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: null };
const NOTHING_HAPPENED = {
  httpStatus: null,
  error: null,
  address: null,
  phases: NO_PHASES,
  responseExcerpt: null,
  refusal: null,
  retryAfter: null,
};

/** Nobody knows whether the receiver got it; that it may come twice is part of the contract (§5). */
export const INTERRUPTED: AttemptResult = {
  ...NOTHING_HAPPENED,
  outcome: "interrupted",
  error: "the daemon stopped during the attempt",
};

/** Its lane was closed while the attempt waited for a slot. */
export const TAKEN_BACK: AttemptResult = {
  ...NOTHING_HAPPENED,
  outcome: "interrupted",
  error: "taken back before it was sent",
};

/** The request could not be made, which is a fault of the program. */
export const NOT_MADE: AttemptResult = {
  ...NOTHING_HAPPENED,
  outcome: "failed",
  error: "internal error",
};

/** The result of an attempt whose own record the store rejected: without what the receiver sent. */
export function withoutTexts(result: AttemptResult): AttemptResult {
  const { outcome, httpStatus, phases } = result;
  const error = outcome === "delivered" ? null : "its record could not be stored";
  return { ...NOTHING_HAPPENED, outcome, httpStatus, phases, error };
}

/** The URL was refused before it was sent. */
export function toRefused(host: string, { rule, reason }: UrlRefusal): AttemptResult {
  // A literal address stands for itself; a refused name was never resolved.
  const addresses = parseAddress(host) === null ? [] : [host];
  const refusal = { host, addresses, rule };
  return { ...NOTHING_HAPPENED, outcome: "refused", error: reason, refusal };
}
