/** The input and the result of a type's tasks. */
export interface TaskType {
  readonly input: unknown;
  readonly result: unknown;
}

/** Types by name, such as `{ resize: { input: { file: string }; result: { width: number } } }`. */
export type TaskTypes<Types> = { readonly [Name in keyof Types]: TaskType };

/** Any type, with any JSON. */
export type AnyTypes = Readonly<Record<string, TaskType>>;

export type TypeName<Types> = Extract<keyof Types, string>;

/** A task as a function gets it. It is the function's own copy: changes to it have no effect. */
export interface FunctionTask<Input = unknown> {
  readonly id: string;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  /** The posted input, null when the client posted none. Numbers that a double cannot hold lose digits. */
  readonly input: Input;
}

/** Signals the end to a running function, and receives its progress. */
export interface FunctionContext {
  /**
   * Aborted when the task is cancelled, runs past its timeout (`signal.reason` is a `TimeoutError` then), or the daemon
   * stops. The daemon does not wait for the function after that, and cannot end it from outside: it should end by
   * itself.
   */
  readonly signal: AbortSignal;
  /** Reports the progress, from 0 to 1, with a note of at most 255 characters; anything else is ignored. */
  readonly progress: (progress: number, note?: string) => void;
}

/**
 * Computes a task's result: any value that `JSON.stringify` can write, or a promise of one; `undefined` becomes null.
 * An error that it throws fails the run: the client sees the error's message and name, and never its stack.
 */
export type TaskFunction<Input = unknown, Result = unknown> = (
  task: FunctionTask<Input>,
  context: FunctionContext,
) => Result | Promise<Result>;

/** The facts of a {@link TaskFailure} beside its message. */
export interface TaskFailureOptions {
  /** True runs the task again, false never does; without it the type's `retries` decide. */
  readonly retry?: boolean | undefined;
  /** Facts for the client, shown as `error.detail`. */
  readonly detail?: Readonly<Record<string, string | number | null>> | undefined;
}

/** Thrown by a worker's handler to fail its task, with a say in whether the task is run again. */
export class TaskFailure extends Error {
  override readonly name = "TaskFailure" as const;
  readonly retry: boolean | undefined;
  readonly detail: TaskFailureOptions["detail"];

  constructor(message: string, { retry, detail }: TaskFailureOptions = {}) {
    super(message);
    this.retry = retry;
    this.detail = detail;
  }
}
