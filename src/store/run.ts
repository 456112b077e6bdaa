import type { RetentionEnd } from "../domain/clock/retention.ts";
import type { StatusCode } from "../domain/status.ts";
import type { LeftWork } from "./cluster.ts";
import type { LaneRef } from "./delivery.ts";

/** What the store takes and gives about runs, for the engine; re-exported by store.ts. */

/** What is remembered of the runs of the daemon's own runners. */
export interface RunStore {
  /**
   * Starts up to `max` queued tasks of a type, in the order of the accounts' turns; counts the run. Fewer, though more
   * are queued, where their inputs reach {@link CLAIM_INPUT_MAX}. None of an account that is disabled.
   */
  claimTasks(claim: TaskClaim): Promise<readonly ClaimedTask[]>;
  /**
   * Records how a run ended and makes the first attempt of each webhook due at `endedAt`. Does nothing to
   * a task that is not running. Answers the lanes that now have an attempt due.
   */
  finishTask(finish: TaskFinish): Promise<readonly LaneRef[]>;
  /** Puts a running task back into the queue after a failed run, to start at `startAt`. */
  retryTask(retry: RunRef & { startAt: number }): Promise<void>;
  /**
   * Puts running tasks back into the queue, one or all that were left; their runs stay counted. What a worker holds a
   * lease of stays with it. Answers how many.
   */
  requeueTasks(which: RunRef | LeftWork): Promise<number>;
  /** Puts a running task back into the queue as if it had not been started. Does nothing to one that is not running. */
  releaseTask(which: RunRef): Promise<void>;
  /** Those of these tasks, by id, that have ended or been erased; soon answered, and may be asked once a second. */
  findEndedRuns(query: EndedRunsQuery): Promise<readonly string[]>;
}

/**
 * Starts tasks of one type for the daemon's own runner. Accounts take turns, one task each, beginning with the next one
 * after the account whose task was started last in this process. Within an account priority, then age.
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
  /** How often it was started, this time included. */
  readonly runs: number;
  /** How many of its runs failed or timed out. */
  readonly failures: number;
}

/** A task that was claimed. */
export interface RunRef {
  readonly seq: number;
  /** To be given where the task may have been erased since: its seq may be another task's by now. */
  readonly id?: string;
  /**
   * Which of its runs: `runs` of the claim, which it names together with the task's id. To be given where somebody else
   * may have put the task back: nothing is done to one that was claimed again since. `releaseTask` alone makes a number
   * count for the next claim too, and it is for whoever has this one.
   */
  readonly run?: number;
}

/** How a run is kept that was the task's last. */
export interface RunEnd extends RetentionEnd {
  readonly state: "completed" | "failed";
  readonly code: StatusCode;
  readonly resultText: string | null;
  readonly errorText: string | null;
  readonly endedAt: number;
}

/** The end of a run by the daemon's own runner. */
export interface TaskFinish extends RunRef, RunEnd {}

/** Runs that may have been ended by another process. */
export interface EndedRunsQuery {
  readonly runs: readonly Required<Pick<RunRef, "seq" | "id">>[];
}
