import type { TaskProgress } from "../domain/task/progress.ts";

/**
 * What one start of a task is given. `inputText` is the posted input as JSON text (`null` when the
 * client posted none): it is never parsed between the client and the runner, so numbers keep every digit.
 */
export interface RunRequest {
  readonly id: string;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  readonly inputText: string;
}

/** What came of one run. A failed run is a value, not an exception. */
export type RunOutcome =
  /** `resultText` is JSON text, valid, at most as deep and as long as the limits allow. */
  | { readonly kind: "completed"; readonly resultText: string }
  /** Becomes 50010; `message` is one sentence for the client, `detail` (JSON-safe) says how it failed. */
  | { readonly kind: "failed"; readonly message: string; readonly detail: RunFailureDetail }
  /** Ran past its timeout; becomes 50401. */
  | { readonly kind: "timed_out"; readonly message: string; readonly detail: RunFailureDetail }
  /** `signal` was aborted and the run was stopped, or it was lost as in a crash: the task is run again, or not. */
  | { readonly kind: "aborted" };

/** Facts of a failed run, shown to the client as `error.detail`. */
export type RunFailureDetail = Readonly<Record<string, string | number | null>>;

/** Runs tasks of one type. The caller keeps the number of runs at once within `concurrency`. */
export interface Runner {
  readonly concurrency: number;
  /**
   * Runs one task to its end. Resolves only when nothing of the run is left (no process, no timer).
   * Never rejects for what the task did; a rejection is a bug.
   */
  run(request: RunRequest, options: RunOptions): Promise<RunOutcome>;
}

/** What a run is told and tells while it lasts. */
export interface RunOptions {
  /** Aborted when the run is to stop: its task was cancelled, or the daemon ends. */
  readonly signal: AbortSignal;
  /** To be called with how far the run has come, as often as it likes; nothing is written for it. */
  readonly report: (progress: TaskProgress) => void;
}
