import { isSessionOver } from "../../domain/account/account.ts";
import { sessionHash } from "../../domain/account/credentials.ts";
import type { SteadyClock } from "../../domain/clock/clock.ts";
import type { Session, Store } from "../../store/store.ts";
import type { UsageNotes } from "../usage-notes.ts";

/** The dependencies of looking up a session. */
export interface SessionLookup {
  readonly store: Pick<Store, "findSession">;
  readonly sessionUsage: UsageNotes<number>;
  readonly clock: Pick<SteadyClock, "steady">;
}

/**
 * The session that a cookie's values stand for at this moment; null where there is none, or it is over. Several
 * values count as none: somebody else may have set one of them, and the browser does not say who. It is looked up on
 * every request: a process that ends it is obeyed at once.
 */
export async function findLiveSession(
  values: readonly string[],
  { store, sessionUsage, clock }: SessionLookup,
): Promise<Session | null> {
  const [value, ...others] = values;
  const hash = value === undefined || others.length > 0 ? null : sessionHash(value);
  // Uses noted since they were last written count too.
  const lastUses = sessionUsage.lastUses();
  const session = hash === null ? null : await store.findSession(hash);
  if (session === null) return null;
  const lastSeenAt = lastUses(session.sessionId, session.lastSeenAt) ?? session.lastSeenAt;
  return isSessionOver({ ...session, lastSeenAt }, clock.steady()) ? null : session;
}

/** Notes that a session was used, unless the page made the request by itself: that keeps no session alive. */
export function noteActivity(
  { sessionId }: Session,
  refresh: readonly string[],
  { sessionUsage, clock }: SessionLookup,
): void {
  if (!refresh.includes("automatic")) sessionUsage.note(sessionId, clock.steady());
}
