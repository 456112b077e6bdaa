import { idTimeMs, isId } from "./id.ts";

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
