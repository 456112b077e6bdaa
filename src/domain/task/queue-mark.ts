/**
 * Measures how long queued tasks have waited, in the time for which the queue was served. A mark tells which task was
 * the newest at a moment; between two marks lies about an hour of serving. A task has waited since a mark or longer
 * when it was posted by then and did not come into the queue later.
 */

/** True when a new mark is due: the newest one has been served for that time, or there is none. */
export function isMarkDue(
  newest: { readonly servedMs: number } | undefined,
  { servedMs, everyMs }: { readonly servedMs: number; readonly everyMs: number },
): boolean {
  return newest === undefined || newest.servedMs + servedMs >= everyMs;
}

/**
 * True for a task, posted before a mark, that has been in the queue since. `queuedMark` was the newest mark when it
 * came into the queue; null when it has been there since it was posted.
 */
export function waitsSince(mark: number, queuedMark: number | null): boolean {
  return queuedMark === null || queuedMark < mark;
}
