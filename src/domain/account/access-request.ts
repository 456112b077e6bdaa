import { DAY_MS } from "../clock/duration.ts";
import { plainLines, plainText, textRule, type Rule } from "../rule.ts";

/** The details that a person who asks for access gives. */
export interface AccessRequestFields {
  readonly email: string;
  readonly name: string | null;
  readonly company: string | null;
  readonly message: string | null;
}

/** A request for access, as the operator sees it. */
export interface AccessRequest extends AccessRequestFields {
  readonly id: string;
  readonly createdAt: number;
  /** Null while it waits for a decision. */
  readonly decision: AccessDecision | null;
}

export interface AccessDecision {
  readonly kind: "approved" | "denied";
  readonly decidedAt: number;
  /** The account that an approval made; null for a denial. */
  readonly login: string | null;
}

/**
 * Tells why a request cannot be decided: there is none with this id, or it has been decided before. Null when it can
 * be.
 */
export function whyUndecidable(
  decision: AccessDecision["kind"] | null | undefined,
): "unknown" | "decided" | null {
  if (decision === undefined) return "unknown";
  return decision === null ? null : "decided";
}

/** The length of a request's text. */
export function lettersOf({ email, name, company, message }: AccessRequestFields): number {
  return [email, name, company, message].reduce((sum, text) => sum + (text?.length ?? 0), 0);
}

/** The most requests that may wait concurrently; a flood adds no more. */
export const PENDING_REQUESTS_MAX = 10_000;

/** A /48 of IPv6 has so many times the requests of a /64: one /64 cannot use up all of them. */
export const NETWORK_FACTOR = 5;

/** How long a request waits for a decision before it is erased. */
export const PENDING_REQUEST_MS = 30 * DAY_MS;

/** How long a request is safe: when the most wait, the oldest gives way to a new one, but not before this time. */
export const SAFE_REQUEST_MS = DAY_MS;

export const EMAIL_LENGTH_MAX = 254;

/** The name of the person who asks, or of their company. */
export const REQUEST_NAME = plainText(255);

/** The message that they add. */
export const REQUEST_MESSAGE = plainLines(4000);

// The form that mail servers really accept; only a mail can tell whether the mailbox exists.
const ADDRESS = /^[^\s@\p{Cc}\p{Cf}<>",;:\\()[\]]+@[^\s@\p{Cc}\p{Cf}<>",;:\\()[\]]+$/u;

/** Text that can be an e-mail address: one @ with something before and after it. */
export const EMAIL: Rule<string, string> = textRule({
  takes: `an e-mail address of at most ${EMAIL_LENGTH_MAX} characters, such as ada@example.com`,
  hint: "EMAIL",
  schema: { type: "string", maxLength: EMAIL_LENGTH_MAX, format: "email" },
  read: (text) =>
    text.length <= EMAIL_LENGTH_MAX && text.isWellFormed() && ADDRESS.test(text) ? text : null,
});
