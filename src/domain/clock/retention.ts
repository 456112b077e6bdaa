import { idTimeMs, isId } from "../id.ts";

/** How long the answer to an idempotency key is kept (contract §3). */
export const IDEMPOTENCY_MS = 24 * 3600 * 1000;

/** A task whose retention is over while one of its webhooks is still to be sent is looked at again after this time. */
export const OPEN_DELIVERY_MS = 3600 * 1000;

/** A moment by the wall clock and by the steady clock. */
export interface Moment {
  /** Milliseconds since the epoch, as the machine's clock shows them: what clients are told. */
  readonly at: number;
  /** The reading of {@link SteadyClock.steady} at the same moment. */
  readonly steadyAt: number;
}

/** The end of a task's retention: the time that clients see, and the time that the sweep uses. */
export interface RetentionEnd {
  /** By the wall clock at the moment when the task ended: never changed, because the webhook carries it too. */
  readonly expiresAt: number;
  /** By the steady clock: setting the wall clock does not move it. */
  readonly eraseAt: number;
}

/** Computes when a task that ended at this moment may be erased. */
export function retentionEnd({ at, steadyAt }: Moment, retentionMs: number): RetentionEnd {
  return { expiresAt: at + retentionMs, eraseAt: steadyAt + retentionMs };
}

/**
 * True when an unknown id may once have been a task whose results have expired: its own time is before the retention
 * period (contract §1, 40403).
 */
export function isExpiredId(id: string, facts: { now: number; retentionMs: number }): boolean {
  return isId(id) && idTimeMs(id) < facts.now - facts.retentionMs;
}
