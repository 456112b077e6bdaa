/** A task as a function is given it. Its own copy: whatever the function does to it changes nothing. */
export interface FunctionTask {
  readonly id: string;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  /** The posted input, null where the client posted none. Numbers that a double cannot hold lose digits. */
  readonly input: unknown;
}

/** What a function is told and tells while it runs. */
export interface FunctionContext {
  /**
   * Aborted when the task is cancelled, runs past its timeout (`signal.reason` is a `TimeoutError` then), or the daemon
   * stops. Nobody waits for the function after that, and nothing can end it from outside: it should end by itself.
   */
  readonly signal: AbortSignal;
  /** Tells how far it is, from 0 to 1, with a note of at most 255 characters; anything else is passed over. */
  readonly progress: (progress: number, note?: string) => void;
}

/**
 * Computes a task's result: any value that `JSON.stringify` can write, nothing (`undefined`) being null, or a promise
 * of one. What it throws fails the run: the client sees the error's message and name, and never its stack.
 */
export type TaskFunction = (task: FunctionTask, context: FunctionContext) => unknown;
