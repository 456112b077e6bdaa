import type { TaskProgress } from "../task/progress.ts";

/**
 * A lease is held by an external worker while it runs a task (contract §7). Each claim makes a new lease, and only the
 * newest one of a task can end its run: whoever holds an older one is told that it is lost.
 *
 *     held ──→ completed, failed, released   by the worker
 *       │ ↑
 *       │ └─ revived by a late heartbeat, while nobody else has claimed the task
 *       ├────→ expired                       no heartbeat in time: the task is queued again
 *       ├────→ timed_out                     the type's timeout, whatever the heartbeats
 *       └────→ cancelled                     by the client; or its account was disabled: the task is queued again
 */
export type LeaseEnding =
  | "completed"
  | "failed"
  | "released"
  | "expired"
  | "timed_out"
  | "cancelled";

/** The names by which a worker refers to a lease. */
export interface LeaseRef {
  /** The task's id. */
  readonly id: string;
  readonly leaseId: string;
}

/**
 * The answer to a worker about a lease: it counted, a newer lease or the daemon has the task, or the client cancelled
 * it.
 */
export type LeaseOutcome = (typeof LEASE_OUTCOMES)[number];

export const LEASE_OUTCOMES = ["ok", "lost", "cancelled"] as const;

/** A sign of life for a lease, with the progress of its run. */
export interface LeaseBeat extends LeaseRef {
  readonly progress: TaskProgress | null;
}

/** A run that a worker completed. */
export interface LeaseCompletion extends LeaseRef {
  /** JSON text. */
  readonly resultText: string;
}

/** A run that a worker gave up. */
export interface LeaseFailure extends LeaseRef {
  /** One sentence for the client. */
  readonly message: string;
  /** JSON text, `null` when the worker gave none. */
  readonly detailText: string;
  /** True runs it again, false never does, null follows the type. */
  readonly retry: boolean | null;
}

/**
 * Workers that vanish so often with the same task are most likely ended by it. Then the task fails, because it would go
 * on ending workers for ever. A lost lease is not a failure of the task, so the type's `retries` do not count here.
 */
export const LEASE_LOSSES_MAX = 5;

/** Decides what follows when the task's lease number `lossesBefore` + 1 ran out: another run, or the end. */
export function decideLostLease({
  lossesBefore,
}: {
  readonly lossesBefore: number;
}): "again" | "final" {
  return lossesBefore + 1 < LEASE_LOSSES_MAX ? "again" : "final";
}

/** The shortest and the longest time that a lease may hold without a heartbeat. */
export const LEASE_MS_MIN = 1000;
export const LEASE_MS_MAX = 60 * 60 * 1000;

/** The most tasks of one claim, and of one request that completes or fails them (contract §7). */
export const LEASE_BATCH_MAX = 100;

/** The longest that a claim may wait for a task (contract §7). */
export const CLAIM_WAIT_SECONDS_MAX = 30;
