/** A session that nobody uses is over after this long. */
export const SESSION_IDLE_MS = 30 * 60_000;

/** However much it is used, a session is over after this long. */
export const SESSION_AGE_MS = 12 * 3_600_000;

/** So many sessions a key, and the operator, may have at once: one more ends the oldest. */
export const SESSIONS_MAX = 20;

/** For this long a sign-in link may be used. */
export const SIGN_IN_LINK_MS = 30 * 60_000;

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
