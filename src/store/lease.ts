import type { RetentionEnd } from "../domain/clock/retention.ts";
import type { LeaseEnding, LeaseOutcome, LeaseRef } from "../domain/lease/lease.ts";
import type { StatusCode } from "../domain/status.ts";
import type { LaneRef } from "./delivery.ts";

/** What the store takes and gives about runs, leases and workers; re-exported by store.ts. */

/**
 * Starts tasks of one type for the daemon's own runner. Accounts take turns, one task each, beginning with the next one
 * after the account whose task was started last in this process. Within an account priority, then age.
 */
export interface TaskClaim {
  readonly type: string;
  readonly max: number;
  readonly now: number;
}

/** How much there is of a type to do. */
export interface TypeWork {
  readonly type: string;
  readonly running: number;
  /** Queued tasks that may start now; those that were asked for later are none. */
  readonly waiting: number;
  /** True when more wait than were counted. */
  readonly isMoreWaiting: boolean;
  /** Since when the task has waited that has waited longest; null: none waits. */
  readonly oldestAt: number | null;
}

export interface TypeWorkQuery {
  readonly types: readonly string[];
  /** Waiting tasks are counted up to here, of each type. */
  readonly waitingMax: number;
}

export interface ClaimedTask {
  readonly seq: number;
  readonly id: string;
  readonly accountId: number;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  readonly inputText: string | null;
  /** How often it was started, this time included. */
  readonly runs: number;
  /** How many of its runs failed or timed out. */
  readonly failures: number;
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

/** How a run is kept that was the task's last. */
export interface RunEnd extends RetentionEnd {
  readonly state: "completed" | "failed";
  readonly code: StatusCode;
  readonly resultText: string | null;
  readonly errorText: string | null;
  readonly endedAt: number;
}

/** A task that was claimed. */
export interface RunRef {
  readonly seq: number;
  /** To be given where the task may have been erased since: its seq may be another task's by now. */
  readonly id?: string;
}

/** Runs that may have been ended by another process. */
export interface EndedRunsQuery {
  readonly runs: readonly Required<RunRef>[];
}

/** The end of a run by the daemon's own runner. */
export interface TaskFinish extends RunRef, RunEnd {}

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

/** What is stored of a new worker token: never the token itself. */
export interface NewWorker {
  readonly name: string;
  readonly hash: string;
  readonly lastFour: string;
  /** The types whose tasks it may claim; at least one. */
  readonly types: readonly string[];
  readonly createdAt: number;
}

export interface Worker extends Omit<NewWorker, "hash"> {
  readonly workerId: number;
  readonly lastSeenAt: number | null;
  readonly revokedAt: number | null;
  /** Leases that it holds now. */
  readonly leases: number;
}

/** Whose token this is. */
export interface WorkerHolder {
  readonly workerId: number;
  readonly name: string;
  readonly types: readonly string[];
  readonly isRevoked: boolean;
}

export interface WorkerUse {
  readonly workerId: number;
  readonly seenAt: number;
}

/**
 * A claim of tasks ends with the one whose input makes all of them together this long, in characters. So much comes from
 * the writer's thread and goes out to a worker for 5 ms of the main thread's time; 16 MiB took 75 (measured).
 */
export const CLAIM_INPUT_MAX = 1024 * 1024;
