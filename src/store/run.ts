import type { RetentionEnd } from "../domain/clock/service-clock.ts";
import type { LeaseEnding, LeaseOutcome, LeaseRef } from "../domain/lease/lease.ts";
import type { StatusCode } from "../domain/status.ts";
import type { TaskProgress } from "../domain/task/run.ts";
import type { LeftWork } from "./cluster.ts";
import type { LaneRef } from "./delivery.ts";
import type { Audited } from "./upkeep.ts";

/**
 * Remembers the runs of the daemon's own runners. In a cluster a run belongs to its node. Reports about a run from
 * before the node joined again change nothing.
 */
export interface RunStore {
  /**
   * Starts up to `max` queued tasks of a type, in the order of the accounts' turns, and counts the run. Starts fewer,
   * though more are queued, when their inputs reach {@link CLAIM_INPUT_MAX}. Starts none of a disabled account.
   */
  claimTasks(claim: TaskClaim): Promise<readonly ClaimedTask[]>;
  /**
   * Records how a run ended and makes the first attempt of each webhook due at `endedAt`. Returns the lanes that now
   * have an attempt due; null, without a change, if the task was not in that run any more.
   */
  finishTask(finish: TaskFinish): Promise<readonly LaneRef[] | null>;
  /** Delays a running task until `startAt`, after a failed run. */
  retryTask(retry: RunRef & { startAt: number }): Promise<void>;
  /**
   * Puts running tasks back into the queue, one or all that were left behind; their runs stay counted. A task that a
   * worker holds a lease of stays with the worker. Returns their number.
   */
  requeueTasks(which: RunRef | LeftWork): Promise<number>;
  /**
   * Puts a running task back into the queue as if it had not been started. Does nothing to a task that is not running.
   */
  releaseTask(which: RunRef): Promise<void>;
  /** Finds the given tasks that have ended or were erased. Quick: it may be asked once a second. */
  findEndedTasks(query: { ids: readonly string[] }): Promise<readonly string[]>;
  /**
   * Stores the newest progress of this node's runs and of its workers' runs, for the other nodes. Skips tasks that
   * another node runs by now. To be called at most once a second, and not at all in a store of one node, which keeps
   * nothing.
   */
  noteProgress(runs: readonly ReportedProgress[]): Promise<void>;
  /** Finds the stored progress of the given tasks that run; nothing in a store of one node. */
  findProgress(query: { ids: readonly string[] }): Promise<readonly RunProgress[]>;
}

/** The progress of a task that is running, as its run reported it last. */
export interface RunProgress {
  readonly id: string;
  readonly progress: TaskProgress;
}

/** Progress, and its source: a run of this node, by its number, or the holder of a lease. */
export interface ReportedProgress extends RunProgress {
  readonly by: { readonly run: number } | { readonly leaseId: string };
}

/**
 * Starts tasks of one type for the daemon's own runner. Accounts take turns, one task each, beginning with the account
 * after the one whose task was started last in this process. Within an account tasks start by priority, then age.
 */
export interface TaskClaim {
  readonly type: string;
  readonly max: number;
  readonly now: number;
}

export interface ClaimedTask {
  readonly seq: number;
  readonly id: string;
  readonly accountId: number;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  readonly inputText: string | null;
  /** The trace it was posted in, as it is stored; null for none. */
  readonly traceText: string | null;
  /** When it could start: when it was posted, or the later time that it was to start at. */
  readonly queuedAt: number;
  /** How often the task was started, including this time. */
  readonly runs: number;
  /** How many of its runs failed or timed out. */
  readonly failures: number;
}

/** A task that was claimed. */
export interface RunRef {
  readonly seq: number;
  /** To be given where the task may have been erased since: its seq may belong to another task by now. */
  readonly id?: string;
  /**
   * Names one of its runs, together with the task's id: the `runs` of its claim. Required if another caller may have
   * requeued the task: a task that was claimed again stays as it is. Only `releaseTask` lets the next claim have the
   * same number, and only the holder of this run calls it.
   */
  readonly run?: number;
}

/** The record of a task's last run. */
export interface RunEnd extends RetentionEnd {
  readonly state: "completed" | "failed";
  readonly code: StatusCode;
  readonly resultText: string | null;
  readonly errorText: string | null;
  readonly endedAt: number;
}

/** The end of a run by the daemon's own runner. */
export interface TaskFinish extends RunRef, RunEnd {}

/** Remembers tasks that wait to be started. */
export interface QueueStore {
  /** Lets up to `max` delayed tasks whose time has come into the queue. Returns their number. */
  releaseDelayed(due: { now: number; max: number }): Promise<number>;
  /** When the longest-waiting task of the given types was queued; null if no task waits. */
  findOldestQueued(types: readonly string[]): Promise<number | null>;
  /**
   * Lists the work of each given type, in the order of the types. May take its time without holding up anything else.
   */
  listTypeWork(query: TypeWorkQuery): Promise<readonly TypeWork[]>;
  /** Lists the types of queued and delayed tasks. */
  listQueuedTypes(): Promise<readonly string[]>;
  /**
   * Finds the given types that have a queued task, also of disabled accounts. Quick: where other nodes share the store
   * it is asked once a second, for what they queued.
   */
  findWaitingTypes(types: readonly string[]): Promise<readonly string[]>;
  /**
   * Adds time for which the queue was served, and sets a mark when the last one has been served for `everyMs`. Returns
   * the newest queue checkpoint since which the queue was served for `queueMs`; null if there is no such checkpoint
   * yet. Forgets the marks before it.
   */
  markQueue(served: { servedMs: number; everyMs: number; queueMs: number }): Promise<number | null>;
  /**
   * Ends up to `max` tasks that have been in the queue since `mark` or longer, as finishTask does. Looks at a few
   * thousand at most: a page of a walk through the queue, which `next` continues.
   */
  expireQueued(expiry: QueueExpiry): Promise<ExpiredPage>;
}

/** A place in the queue: the task that was looked at last. */
export interface QueuePlace {
  readonly type: string;
  readonly accountId: number;
  readonly priority: number;
  readonly seq: number;
}

export interface QueueExpiry {
  readonly mark: number;
  /** Null at the beginning of a walk. */
  readonly after: QueuePlace | null;
  readonly max: number;
  readonly end: RunEnd;
}

export interface ExpiredPage {
  readonly tasks: readonly ExpiredTask[];
  /** The lanes that now have an attempt due. */
  readonly lanes: readonly LaneRef[];
  /** Null when the walk is at its end. */
  readonly next: QueuePlace | null;
}

export interface ExpiredTask {
  readonly id: string;
  readonly type: string;
}

/** The amount of work there is for a type. */
export interface TypeWork {
  readonly type: string;
  readonly running: number;
  /** Queued tasks that may start now; those that were asked for later do not count. */
  readonly waiting: number;
  /** True when more wait than were counted. */
  readonly isMoreWaiting: boolean;
  /** When the longest-waiting task was queued; null when none waits. */
  readonly oldestAt: number | null;
}

export interface TypeWorkQuery {
  readonly types: readonly string[];
  /** The most waiting tasks that are counted of each type. */
  readonly waitingMax: number;
}

/** Remembers the leases of workers. */
export interface LeaseStore {
  /** Starts queued tasks for a worker, each with a new lease, and counts the run. Stops where `claimTasks` stops. */
  claimLeases(claim: LeaseClaim): Promise<readonly LeasedTask[]>;
  /**
   * Extends leases to their full time from `now` on, never beyond the timeout. An expired lease is revived unless its
   * task was claimed again. A lease of a disabled account ends as cancelled: its task is queued again as if it had not
   * been started. Returns an outcome for each, in their order; `lost` for a lease of another worker.
   */
  extendLeases(beat: WorkerLeases & { now: number }): Promise<readonly BeatOutcome[]>;
  /**
   * Ends leases one after the other, each with what becomes of its task; none spoils the others. A lease that ended in
   * the same way before answers `ok` again and changes nothing. An expired lease can still be completed, failed or
   * released until its task is claimed again. A lease that {@link extendLeases} ended can be completed. Returns a
   * result for each, in their order; `lost` for a lease of another worker.
   */
  endLeases(ends: LeaseEnds): Promise<readonly LeaseEndResult[]>;
  /**
   * Resumes the leases whose workers could not reach a node: extends them to their full time from `now` on. They are
   * also extended past their timeouts, because no heartbeat could arrive, and never beyond their full time, because the
   * clock may have been set back. Returns the held leases. Where nodes share the store, "earlier life" extends only
   * when this node found no other alive when it joined, and "ended nodes" always: it is asked for when nobody could
   * reach the store for a while.
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
   * The most tasks of this type that workers may hold concurrently. In a cluster the store counts the leases of all
   * nodes and starts no more; in a store of one node the caller has counted.
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
  /** Back to the queue immediately. `runs` counts this run or not. */
  | { readonly kind: "requeue"; readonly isRunCounted: boolean };

/** The end of a lease. `expired` and `timed_out` count only where the lease has run out at `LeaseEnds.now`. */
export interface LeaseEnd extends LeaseRef {
  readonly how: Exclude<LeaseEnding, "cancelled">;
  readonly sequel: LeaseSequel;
}

export interface LeaseEnds {
  readonly ends: readonly LeaseEnd[];
  /** The worker whose token claimed the leases; null if the daemon ends leases of any worker. */
  readonly workerId: number | null;
  readonly now: number;
}

/** Leases that a worker names; leases that were given to another token are unknown to it. */
export interface WorkerLeases {
  readonly leases: readonly LeaseRef[];
  readonly workerId: number;
}

/** The outcome of a heartbeat: `suspended` ended the lease, because the account of its task is disabled. */
export type BeatOutcome = LeaseOutcome | "suspended";

/** The result of a {@link LeaseEnd}. */
export interface LeaseEndResult {
  readonly outcome: LeaseOutcome;
  /** True when this call ended the lease; false when it had ended in the same way before, or did not count. */
  readonly isNew: boolean;
  /** Lanes that now have an attempt due. */
  readonly lanes: readonly LaneRef[];
}

/** Remembers workers and their tokens. */
export interface WorkerStore {
  /** Keeps a worker's token; `exists` while an active one has the name. */
  createWorker(worker: NewWorker & Audited): Promise<"created" | "exists">;
  /** Lists all workers, by name; among revoked ones with the same name the newest first. */
  listWorkers(): Promise<readonly Worker[]>;
  /**
   * Revokes the active worker of this name, or returns the worker of this name that was revoked last; null for an
   * unknown name.
   */
  revokeWorker(change: { name: string; revokedAt: number } & Audited): Promise<Worker | null>;
  /** Records when workers sent their last request; a time never moves back. */
  touchWorkers(uses: readonly WorkerUse[]): Promise<void>;
  /** Finds the holder of a token. Reads what is committed now, by whichever process. */
  findWorkerHolder(tokenHash: string): Promise<WorkerHolder | null>;
}

/** The stored part of a new worker token, which never includes the token itself. */
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
  /** The number of leases that it holds now. */
  readonly leases: number;
}

/** The holder of a token. */
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
