const AHEAD_MS = 300 * 24 * 3600 * 1000;

/** A `start_at` that does not come while a test runs; `now` is what the daemon's clock shows. */
export function farStart(now = Date.now()): string {
  return new Date(now + AHEAD_MS).toISOString();
}
