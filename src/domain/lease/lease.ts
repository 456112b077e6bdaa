import type { TaskProgress } from "../task/progress.ts";

/**
 * What an external worker holds while it runs a task (contract §7). Each claim makes a new lease, and only the newest
 * one of a task can end its run: whoever holds an older one is told that it is lost.
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

/** What a worker names a lease by. */
export interface LeaseRef {
  /** The task's id. */
  readonly id: string;
  readonly leaseId: string;
}

/** What a worker is told about a lease: it counted, a newer one or the daemon has the task, or the client cancelled it. */
export type LeaseOutcome = (typeof LEASE_OUTCOMES)[number];

export const LEASE_OUTCOMES = ["ok", "lost", "cancelled"] as const;

/** A sign of life for a lease, and how far its run has come. */
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
  /** JSON text, `null` where the worker gave none. */
  readonly detailText: string;
  /** True: run it again; false: never; null: as the type says. */
  readonly retry: boolean | null;
}

/**
 * Workers that vanish with the same task so often are most likely ended by it: then the task fails, or it would go on
 * ending workers for ever. A lost lease is no failure of the task's, so the type's `retries` do not count here.
 */
export const LEASE_LOSSES_MAX = 5;

/** Decides what follows when a lease ran out that was the task's `lossesBefore + 1`st: another run, or the end. */
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
