import { plainLines, plainText, textRule } from "../rule.ts";
import type { Rule } from "../rule.ts";

/** What somebody who asks for access says of themselves. */
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

/** What became of a request. */
export interface AccessDecision {
  readonly kind: "approved" | "denied";
  readonly decidedAt: number;
  /** The account that an approval made; null for a denial. */
  readonly login: string | null;
}

/** Why a request cannot be decided: there is none with this id, or it has been decided before; null: it can. */
export function whyUndecidable(
  decision: AccessDecision["kind"] | null | undefined,
): "unknown" | "decided" | null {
  if (decision === undefined) return "unknown";
  return decision === null ? null : "decided";
}

/** How much text a request holds. */
export function lettersOf({ email, name, company, message }: AccessRequestFields): number {
  return [email, name, company, message].reduce((sum, text) => sum + (text?.length ?? 0), 0);
}

/** Requests that may wait at once: whoever floods the operator fills this and no more. */
export const PENDING_REQUESTS_MAX = 10_000;

export const EMAIL_LENGTH_MAX = 254;

/** Who asks, or their company. */
export const REQUEST_NAME = plainText(255);

/** What they say beside. */
export const REQUEST_MESSAGE = plainLines(4000);

// What mail servers really take; whether there is a mailbox only a mail can tell.
const ADDRESS = /^[^\s@\p{Cc}\p{Cf}<>",;:\\()[\]]+@[^\s@\p{Cc}\p{Cf}<>",;:\\()[\]]+$/u;

/** True for text that can be an e-mail address: one @, something before it and something behind. */
export function isEmail(text: string): boolean {
  return text.length <= EMAIL_LENGTH_MAX && text.isWellFormed() && ADDRESS.test(text);
}

/** An e-mail address, by {@link isEmail}. */
export const EMAIL: Rule<string> = textRule({
  takes: `an e-mail address of at most ${EMAIL_LENGTH_MAX} characters, such as ada@example.com`,
  hint: "EMAIL",
  schema: { type: "string", maxLength: EMAIL_LENGTH_MAX, format: "email" },
  read: (text) => (isEmail(text) ? text : null),
});
