/** How long tasks have waited that may run. */

/** A task that is queued, and when it may run at the earliest. */
export interface QueuedTimes {
  readonly createdAt: number;
  readonly startAt: number | null;
}

// Tasks that were queued after others that were made later, because they were to start later.
const EXAMINED_MAX = 100;

/**
 * Since when the task has waited that may run and has waited longest; null when none does. Of tasks in the order in which
 * they were made; reads no more of them than it has to.
 */
export function oldestSince(tasks: Iterable<QueuedTimes>): number | null {
  let oldest: number | null = null;
  let examined = 0;
  for (const { createdAt, startAt } of tasks) {
    // Those that follow were made later.
    if ((oldest !== null && createdAt >= oldest) || ++examined > EXAMINED_MAX) break;
    oldest = earlier(oldest, Math.max(createdAt, startAt ?? 0));
  }
  return oldest;
}

/** The earlier of two times; null is none. */
export function earlier(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}

/** For how long something has waited; 0 where nothing waits, and where the clock was set back. */
export function waitedMs(since: number | null, now: number): number {
  return since === null ? 0 : Math.max(0, now - since);
}
