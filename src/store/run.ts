import type { RetentionEnd } from "../domain/clock/service-clock.ts";
import type { StatusCode } from "../domain/status.ts";
import { type TaskProgress } from "../domain/task/run.ts";
import type { LeftWork } from "./cluster.ts";
import type { LaneRef } from "./delivery.ts";

/**
 * Remembers the runs of the daemon's own runners. Where nodes share the store, a run is its node's: what a node says of
 * a run that it began before it joined again changes nothing.
 */
export interface RunStore {
  /**
   * Starts up to `max` queued tasks of a type, in the order of the accounts' turns, and counts the run. Starts fewer,
   * though more are queued, when their inputs reach {@link CLAIM_INPUT_MAX}. Starts none of a disabled account.
   */
  claimTasks(claim: TaskClaim): Promise<readonly ClaimedTask[]>;
  /**
   * Records how a run ended and makes the first attempt of each webhook due at `endedAt`. Answers the lanes that now
   * have an attempt due; null when it has done nothing, because the task was not in that run any more.
   */
  finishTask(finish: TaskFinish): Promise<readonly LaneRef[] | null>;
  /** Puts a running task back into the queue after a failed run, to start at `startAt`. */
  retryTask(retry: RunRef & { startAt: number }): Promise<void>;
  /**
   * Puts running tasks back into the queue, one or all that were left behind; their runs stay counted. A task that a
   * worker holds a lease of stays with the worker. Answers how many.
   */
  requeueTasks(which: RunRef | LeftWork): Promise<number>;
  /** Puts a running task back into the queue as if it had not been started. Does nothing to one that is not running. */
  releaseTask(which: RunRef): Promise<void>;
  /** Finds those of these tasks that have ended or been erased. Quick: it may be asked once a second. */
  findEndedTasks(query: { ids: readonly string[] }): Promise<readonly string[]>;
  /**
   * Keeps the newest progress of runs, this node's own and those that workers told it of, for the other nodes to show.
   * Passes over what somebody else runs by now. To be called at most once a second, and not at all in a store of one node, which
   * keeps nothing.
   */
  noteProgress(runs: readonly ReportedProgress[]): Promise<void>;
  /** Finds the kept progress of those of these tasks that run; nothing in a store of one node. */
  findProgress(query: { ids: readonly string[] }): Promise<readonly RunProgress[]>;
}

/** The progress of a task that is running, as its run reported it last. */
export interface RunProgress {
  readonly id: string;
  readonly progress: TaskProgress;
}

/** Progress, and who reported it: a run of this node, by its number, or whoever holds a lease. */
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
   * Names one of its runs, together with the task's id: the `runs` of its claim. To be given where somebody else may
   * have put the task back: a task that was claimed again since stays as it is. Only `releaseTask` lets the next claim
   * have the same number, and only the holder of this run calls it.
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
