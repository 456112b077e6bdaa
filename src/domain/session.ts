import { hash, randomBytes } from "node:crypto";

/** A session that nobody uses is over after this long. */
export const SESSION_IDLE_MS = 30 * 60_000;

/** However much it is used, a session is over after this long. */
export const SESSION_AGE_MS = 12 * 3_600_000;

/** So many sessions a key, and the operator, may have at once: one more ends the oldest. */
export const SESSIONS_MAX = 20;

/** For this long a sign-in link may be used. */
export const SIGN_IN_LINK_MS = 30 * 60_000;

/** What the token of every sign-in link begins with. */
export const SIGN_IN_TOKEN_PREFIX = "pbd_link_";

/** What only its holder knows, and what is stored of it: its SHA-256 in hex. */
export interface SessionSecret {
  readonly secret: string;
  readonly hash: string;
}

// 32 bytes in base64url.
const SECRET = /^[A-Za-z0-9_-]{43}$/;

/** A cookie's value, made anew: 256 random bits. */
export function newSessionSecret(): SessionSecret {
  return mint("");
}

/** A sign-in link's token, made anew. */
export function newSignInToken(): SessionSecret {
  return mint(SIGN_IN_TOKEN_PREFIX);
}

/** The hash under which a cookie's value is stored; null for text that was never one. */
export function sessionHash(text: string): string | null {
  return SECRET.test(text) ? hash("sha256", text, "hex") : null;
}

/** The hash under which a link's token is stored; null for text that was never one. */
export function signInTokenHash(text: string): string | null {
  const isToken =
    text.startsWith(SIGN_IN_TOKEN_PREFIX) && SECRET.test(text.slice(SIGN_IN_TOKEN_PREFIX.length));
  return isToken ? hash("sha256", text, "hex") : null;
}

/** Where a link leads to, below the daemon's URL. The token is in the fragment, which no browser sends to anybody. */
export function signInPath(token: string): string {
  return `/dashboard/#link=${token}`;
}

/** When a session began and was last used, by the steady clock: one that is set neither ends nor lengthens it. */
export interface SessionTimes {
  readonly createdAt: number;
  readonly lastSeenAt: number;
}

/** True for a session that has been idle for too long, or has reached its age, or was made in the future. */
export function isSessionOver({ createdAt, lastSeenAt }: SessionTimes, now: number): boolean {
  // The steady clock never goes back, but an older copy of the file may be put in place, and earlier versions went by the
  // wall clock: such a session would stay open until that time is there.
  const isOfFuture = createdAt - now >= SESSION_IDLE_MS;
  return isOfFuture || now - lastSeenAt >= SESSION_IDLE_MS || now >= sessionEndsAt({ createdAt });
}

/** When a session is over at the latest, by the steady clock. */
export function sessionEndsAt({ createdAt }: Pick<SessionTimes, "createdAt">): number {
  return createdAt + SESSION_AGE_MS;
}

function mint(prefix: string): SessionSecret {
  const secret = prefix + randomBytes(32).toString("base64url");
  return { secret, hash: hash("sha256", secret, "hex") };
}
