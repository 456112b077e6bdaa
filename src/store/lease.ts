import type { LeaseEnding, LeaseOutcome, LeaseRef } from "../domain/lease/lease.ts";
import type { LaneRef } from "./delivery.ts";
import type { ClaimedTask, RunEnd } from "./run.ts";

/** What the store takes and gives about leases; re-exported by store.ts. */

/** What is remembered of the leases of workers. */
export interface LeaseStore {
  /** Starts queued tasks for a worker, each with a new lease; counts the run. Ends as `claimTasks` does. */
  claimLeases(claim: LeaseClaim): Promise<readonly LeasedTask[]>;
  /**
   * Makes leases hold for their full time from `now` on, never beyond the timeout. One that has run out comes back to
   * life while nobody has claimed its task. One of a disabled account ends as cancelled: its task is queued again as if
   * it had not been started. An outcome for each, in their order; a lease of another worker is lost.
   */
  extendLeases(beat: WorkerLeases & { now: number }): Promise<readonly BeatOutcome[]>;
  /**
   * Ends leases, each with what becomes of its task: one after the other, and none spoils the others. What ended the
   * same way before is `ok` again and changes nothing; one that ran out may still be completed, failed or released
   * while nobody has claimed its task, and one that {@link extendLeases} ended may be completed. A result for each, in
   * their order; a lease of another worker is lost.
   */
  endLeases(ends: LeaseEnds): Promise<readonly LeaseEndResult[]>;
  /**
   * After a start: all leases hold for their full time from `now` on, past their timeouts too, because no worker could be
   * heard meanwhile; and none beyond it, because the clock may have been set back. Answers those that are held.
   */
  resumeLeases(start: { now: number }): Promise<readonly Lease[]>;
  /** The newest lease of each task; null where this worker has none of it with this id. In their order. */
  findLeases(query: WorkerLeases): Promise<readonly (Lease | null)[]>;
  /** Up to `max` leases that have run out at `now`, the earliest first. */
  listDueLeases(due: { now: number; max: number }): Promise<readonly Lease[]>;
}

/** A type whose tasks a worker claims. */
export interface LeaseType {
  readonly type: string;
  /** At most this many of this type. */
  readonly max: number;
  /** How long a lease holds without a heartbeat. */
  readonly leaseMs: number;
  /** From the claim to the end of the run, whatever the heartbeats. */
  readonly timeoutMs: number;
}

export interface LeaseClaim {
  readonly workerId: number;
  /** In the order of their turn: the first is served first. */
  readonly types: readonly LeaseType[];
  /** At most this many of all types. */
  readonly max: number;
  readonly now: number;
}

export interface LeasedTask extends ClaimedTask {
  readonly leaseId: string;
  readonly leaseExpiresAt: number;
}

/** A lease as the engine looks at it. */
export interface Lease extends LeaseRef {
  readonly type: string;
  readonly failures: number;
  /** How often a lease of this task ran out before. */
  readonly losses: number;
  readonly expiresAt: number;
  /** When the type's timeout is over; `expiresAt` is never later. */
  readonly deadlineAt: number;
}

/** What becomes of the task when a lease ends. */
export type LeaseSequel =
  | ({ readonly kind: "finish" } & RunEnd)
  /** Another run after a failed one, not before `startAt`. */
  | { readonly kind: "retry"; readonly startAt: number }
  /** Back to the queue at once; `runs` goes on counting this run, or not. */
  | { readonly kind: "requeue"; readonly isRunCounted: boolean };

/** The end of a lease. `expired` and `timed_out` count only where the lease has run out at `LeaseEnds.now`. */
export interface LeaseEnd extends LeaseRef {
  readonly how: Exclude<LeaseEnding, "cancelled">;
  readonly sequel: LeaseSequel;
}

export interface LeaseEnds {
  readonly ends: readonly LeaseEnd[];
  /** Whose token the leases were given to; null: the daemon ends them, whoever holds them. */
  readonly workerId: number | null;
  readonly now: number;
}

/** Leases that a worker names; those that another token was given are unknown to it. */
export interface WorkerLeases {
  readonly leases: readonly LeaseRef[];
  readonly workerId: number;
}

/** What came of a heartbeat: `held` ended the lease, because the account of its task is disabled. */
export type BeatOutcome = LeaseOutcome | "held";

/** What came of a {@link LeaseEnd}. */
export interface LeaseEndResult {
  readonly outcome: LeaseOutcome;
  /** True when this ended the lease; false when it had ended the same way before, or did not count. */
  readonly isNew: boolean;
  /** Lanes that now have an attempt due. */
  readonly lanes: readonly LaneRef[];
}
