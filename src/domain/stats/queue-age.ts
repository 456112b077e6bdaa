/** How long tasks that may run have waited. */

/** A queued task's times, and when it may run at the earliest. */
export interface QueuedTimes {
  readonly createdAt: number;
  readonly startAt: number | null;
}

/** The most tasks that were queued after others that were made later, because they were to start later. */
export const OLDEST_EXAMINED_MAX = 100;

/**
 * When the longest-waiting task that may run was queued; null when none waits. Takes the tasks in the order in which
 * they were made, and reads no more of them than necessary.
 */
export function oldestSince(tasks: Iterable<QueuedTimes>): number | null {
  let oldest: number | null = null;
  let examined = 0;
  for (const { createdAt, startAt } of tasks) {
    // All following tasks were made later.
    if ((oldest !== null && createdAt >= oldest) || ++examined > OLDEST_EXAMINED_MAX) break;
    oldest = earlier(oldest, Math.max(createdAt, startAt ?? 0));
  }
  return oldest;
}

/** The earlier of two times; null is no time. */
export function earlier(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}

/** How long something has waited; 0 when nothing waits, and when the clock was set back. */
export function waitedMs(since: number | null, now: number): number {
  return since === null ? 0 : Math.max(0, now - since);
}
