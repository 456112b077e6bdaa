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
