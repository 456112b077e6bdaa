import { idTimeMs, isId } from "./id.ts";

/** How long the answer to an idempotency key is kept (contract §3). */
export const IDEMPOTENCY_MS = 24 * 3600 * 1000;

/** When a task that ended at `endedAt` may be erased. */
export function expiresAt(endedAt: number, retentionMs: number): number {
  return endedAt + retentionMs;
}

/**
 * True when an id that nobody knows may once have been a task whose results have expired: its own time
 * lies before the retention period (contract §1, 40403).
 */
export function isExpiredId(id: string, facts: { now: number; retentionMs: number }): boolean {
  return isId(id) && idTimeMs(id) < facts.now - facts.retentionMs;
}
