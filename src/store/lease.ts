import type { LeaseEnding, LeaseOutcome, LeaseRef } from "../domain/lease/lease.ts";
import type { LeftWork } from "./cluster.ts";
import type { LaneRef } from "./delivery.ts";
import type { ClaimedTask, RunEnd } from "./run.ts";

/** Remembers the leases of workers. */
export interface LeaseStore {
  /** Starts queued tasks for a worker, each with a new lease, and counts the run. Stops where `claimTasks` stops. */
  claimLeases(claim: LeaseClaim): Promise<readonly LeasedTask[]>;
  /**
   * Extends leases to their full time from `now` on, never beyond the timeout. A lease that has run out is revived
   * while nobody has claimed its task. A lease of a disabled account ends as cancelled: its task is queued again as if
   * it had not been started. Answers an outcome for each, in their order; a lease of another worker is `lost`.
   */
  extendLeases(beat: WorkerLeases & { now: number }): Promise<readonly BeatOutcome[]>;
  /**
   * Ends leases one after the other, each with what becomes of its task; none spoils the others. A lease that ended in
   * the same way before answers `ok` again and changes nothing. One that ran out can still be completed, failed or
   * released while nobody has claimed its task, and one that {@link extendLeases} ended can be completed. Answers a
   * result for each, in their order; a lease of another worker is `lost`.
   */
  endLeases(ends: LeaseEnds): Promise<readonly LeaseEndResult[]>;
  /**
   * Resumes the leases for whose workers nobody was there: extends them to their full time from `now` on. They go past
   * their timeouts too, because no worker could be heard meanwhile, and never beyond their full time, because the clock
   * may have been set back. Answers those that are held. Where nodes share the store, "earlier life" extends only when
   * this node found no other alive when it joined, and "ended nodes" always: it is asked for when nobody could reach
   * the store for a while.
   */
  resumeLeases(left: LeftWork & { now: number }): Promise<readonly Lease[]>;
  /** Finds the newest lease of each task, in their order; null where this worker does not hold it under this id. */
  findLeases(query: WorkerLeases): Promise<readonly (Lease | null)[]>;
  /** Lists up to `max` leases that have run out at `now`, the earliest first. */
  listDueLeases(due: { now: number; max: number }): Promise<readonly Lease[]>;
}

/** A type whose tasks a worker claims. */
export interface LeaseType {
  readonly type: string;
  /** The most tasks of this type. */
  readonly max: number;
  /**
   * The most of this type that workers may hold at once. Where nodes share the store it counts what they gave out, and
   * starts no more; in a store of one node the claimer has counted.
   */
  readonly concurrency: number;
  /** How long a lease holds without a heartbeat. */
  readonly leaseMs: number;
  /** The time from the claim to the end of the run, regardless of heartbeats. */
  readonly timeoutMs: number;
}

export interface LeaseClaim {
  readonly workerId: number;
  /** In the order of their turns: the first is served first. */
  readonly types: readonly LeaseType[];
  /** The most tasks of all types. */
  readonly max: number;
  readonly now: number;
}

export interface LeasedTask extends ClaimedTask {
  readonly leaseId: string;
  readonly leaseExpiresAt: number;
}

/** A lease as the engine sees it. */
export interface Lease extends LeaseRef {
  readonly type: string;
  readonly failures: number;
  /** How often a lease of this task ran out before. */
  readonly losses: number;
  readonly expiresAt: number;
  /** When the type's timeout ends; `expiresAt` is never later. */
  readonly deadlineAt: number;
}

/** The fate of the task when a lease ends. */
export type LeaseSequel =
  | ({ readonly kind: "finish" } & RunEnd)
  /** Another run after a failed one, not before `startAt`. */
  | { readonly kind: "retry"; readonly startAt: number }
  /** Back to the queue at once; `runs` keeps counting this run, or does not. */
  | { readonly kind: "requeue"; readonly isRunCounted: boolean };

/** The end of a lease. `expired` and `timed_out` count only where the lease has run out at `LeaseEnds.now`. */
export interface LeaseEnd extends LeaseRef {
  readonly how: Exclude<LeaseEnding, "cancelled">;
  readonly sequel: LeaseSequel;
}

export interface LeaseEnds {
  readonly ends: readonly LeaseEnd[];
  /** The worker whose token the leases were given to; null when the daemon ends them, whoever holds them. */
  readonly workerId: number | null;
  readonly now: number;
}

/** Leases that a worker names; leases that were given to another token are unknown to it. */
export interface WorkerLeases {
  readonly leases: readonly LeaseRef[];
  readonly workerId: number;
}

/** The outcome of a heartbeat: `held` ended the lease, because the account of its task is disabled. */
export type BeatOutcome = LeaseOutcome | "held";

/** The result of a {@link LeaseEnd}. */
export interface LeaseEndResult {
  readonly outcome: LeaseOutcome;
  /** True when this call ended the lease; false when it had ended in the same way before, or did not count. */
  readonly isNew: boolean;
  /** Lanes that now have an attempt due. */
  readonly lanes: readonly LaneRef[];
}
