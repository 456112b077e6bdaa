/** A session that nobody uses ends after this time. */
export const SESSION_IDLE_MS = 30 * 60_000;

/** A session ends after this time, however much it is used. */
export const SESSION_AGE_MS = 12 * 3_600_000;

/** The most sessions that a key, or the operator, may have at once: one more ends the oldest. */
export const SESSIONS_MAX = 20;

/** How long a sign-in link can be used. */
export const SIGN_IN_LINK_MS = 30 * 60_000;

/** The target of a link, below the daemon's URL. The token is in the fragment, which no browser sends to anybody. */
export function signInPath(token: string): string {
  return `/dashboard/#link=${token}`;
}

/**
 * When a session began and was last used, by the steady clock: setting the wall clock neither ends nor lengthens it.
 */
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
