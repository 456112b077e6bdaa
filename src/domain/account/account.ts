import { DAY_MS, HOUR_MS, MINUTE_MS } from "../clock/duration.ts";
import { type Rule, plainLines, plainText, textRule } from "../rule.ts";

export interface Account {
  readonly login: string;
  readonly createdAt: number;
  readonly disabledAt: number | null;
}

/** The login of an account (http-api.md), wherever it is written. Logins are compared exactly. */
export const LOGIN: Rule<string, string> = textRule({
  takes: "1 to 64 of the characters A-Z a-z 0-9 . _ @ + -",
  hint: "LOGIN",
  schema: { type: "string", pattern: "^[A-Za-z0-9._@+-]{1,64}$" },
  read: (text) => (/^[A-Za-z0-9._@+-]{1,64}$/.test(text) ? text : null),
});

/** The login of an account to make. No path of a URL can name `.` or `..`, which are steps in it. */
export const NEW_LOGIN: Rule<string, string> = textRule({
  ...LOGIN,
  takes: `${LOGIN.takes}, except . and ..`,
  read: (text) =>
    text === "." || text === ".." || LOGIN.parse(text).kind === "fault" ? null : text,
});

/** The account that a daemon for development has from the start. */
export const STANDARD_DEV_LOGIN = "dev";

const KEY_ID_FORM = /^key_[0-9a-f]{32}$/;

/** The public name of a key: `key_` and the 32 hex digits of a UUIDv7. */
export const KEY_ID: Rule<string, string> = textRule({
  takes: "the key_id of a key",
  hint: "KEY_ID",
  schema: { type: "string", pattern: KEY_ID_FORM.source },
  read: (text) => (KEY_ID_FORM.test(text) ? text : null),
});

export const KEY_LABEL_MAX = 100;

export const KEY_LABEL = plainText(KEY_LABEL_MAX);

/** The beginning of every API key; listings show it with the last four characters. */
export const KEY_PREFIX = "pbd_live_";

export const WORKER_TOKEN_PREFIX = "pbd_work_";

const SECRET = /^[0-9A-Za-z]{40}$/;

/** True when the text has the prefix and the length of a key or a token; its checksum is not looked at. */
export function hasKeyForm(text: string, prefix: string): boolean {
  return text.startsWith(prefix) && SECRET.test(text.slice(prefix.length));
}

/** The work of an account that is held while the account is disabled. */
export interface SuspendedWork {
  /** Tasks that wait, including those that may not start yet. */
  readonly queued: number;
  /** Running tasks: they are stopped. */
  readonly running: number;
  /** Webhooks that are still to be sent, now or later. */
  readonly webhooks: number;
}

/** Writes the waiting work in words: `12 queued tasks, 3 webhooks`; running tasks wait once they have stopped. */
export function heldText({ queued, webhooks }: SuspendedWork): string {
  const parts = [
    ...(queued === 0 ? [] : [counted(queued, "queued task")]),
    ...(webhooks === 0 ? [] : [counted(webhooks, "webhook")]),
  ];
  return parts.length === 0 ? "nothing" : parts.join(", ");
}

/** A sentence about running tasks; null if no task runs. */
export function stoppedText({ running }: SuspendedWork): string | null {
  if (running === 0) return null;
  return `${counted(running, "running task")} ${running === 1 ? "is" : "are"} stopped`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** An unused session ends after this time. */
export const SESSION_IDLE_MS = 30 * MINUTE_MS;

/** A session ends after this time, however much it is used. */
export const SESSION_AGE_MS = 12 * HOUR_MS;

/** The most concurrent sessions of a key or of the operator: one more ends the oldest. */
export const SESSIONS_MAX = 20;

export const SIGN_IN_LINK_MS = 30 * MINUTE_MS;

/** The target of a link, below the daemon's URL. The token is in the fragment, which browsers never send. */
export function signInPath(token: string): string {
  return `/dashboard/#link=${token}`;
}

/** By the steady clock: setting the wall clock neither ends nor lengthens a session. */
export interface SessionTimes {
  readonly createdAt: number;
  readonly lastSeenAt: number;
}

/** True for a session that has been idle for too long, has reached its age, or was made in the future. */
export function isSessionOver({ createdAt, lastSeenAt }: SessionTimes, now: number): boolean {
  // The steady clock never goes back, but an older copy of the file may be put in place, and earlier versions used the
  // wall clock: such a session would stay open until its time comes.
  const isOfFuture = createdAt - now >= SESSION_IDLE_MS;
  return isOfFuture || now - lastSeenAt >= SESSION_IDLE_MS || now >= sessionEndsAt({ createdAt });
}

/** When a session ends at the latest, by the steady clock. */
export function sessionEndsAt({ createdAt }: Pick<SessionTimes, "createdAt">): number {
  return createdAt + SESSION_AGE_MS;
}

export interface AccessRequestFields {
  readonly email: string;
  readonly name: string | null;
  readonly company: string | null;
  readonly message: string | null;
}

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

/** Why a request cannot be decided: `undefined` is an unknown id. Null if it can be. */
export function whyUndecidable(
  decision: AccessDecision["kind"] | null | undefined,
): "unknown" | "decided" | null {
  if (decision === undefined) return "unknown";
  return decision === null ? null : "decided";
}

export function lettersOf({ email, name, company, message }: AccessRequestFields): number {
  return [email, name, company, message].reduce((sum, text) => sum + (text?.length ?? 0), 0);
}

/** The most requests that may wait concurrently; a flood adds no more. */
export const PENDING_REQUESTS_MAX = 10_000;

/** A /48 of IPv6 has so many times the requests of a /64: one /64 cannot use up all of them. */
export const NETWORK_FACTOR = 5;

export const PENDING_REQUEST_MS = 30 * DAY_MS;

/** How long a request is safe: when the most wait, the oldest gives way to a new one, but not before this time. */
export const SAFE_REQUEST_MS = DAY_MS;

export const EMAIL_LENGTH_MAX = 254;

/** The name of the person who asks, or of their company. */
export const REQUEST_NAME = plainText(255);

export const REQUEST_MESSAGE = plainLines(4000);

// The form that mail servers really accept; only a mail can prove that the mailbox exists.
const ADDRESS = /^[^\s@\p{Cc}\p{Cf}<>",;:\\()[\]]+@[^\s@\p{Cc}\p{Cf}<>",;:\\()[\]]+$/u;

/** Text that can be an e-mail address: one @ with something before and after it. */
export const EMAIL: Rule<string, string> = textRule({
  takes: `an e-mail address of at most ${EMAIL_LENGTH_MAX} characters, such as ada@example.com`,
  hint: "EMAIL",
  schema: { type: "string", maxLength: EMAIL_LENGTH_MAX, format: "email" },
  read: (text) =>
    text.length <= EMAIL_LENGTH_MAX && text.isWellFormed() && ADDRESS.test(text) ? text : null,
});
