/// <reference lib="esnext.disposable" preserve="true" />
import type { Logger } from "../domain/log.ts";
import type { FunctionContext, FunctionTask } from "../domain/task/function.ts";

/** The settings and promises of a worker in a program: types alone, from which the library's own types are made. */

/** A claimed task; it is the handler's own copy. */
export type WorkerTask<Input = unknown> = FunctionTask<Input>;

/**
 * Computes a task's result: any value that `JSON.stringify` can write, or a promise of one; `undefined` becomes null. An
 * error that it throws fails the run with its message; a `TaskFailure` says also whether the task is run again.
 *
 * `signal` is aborted when the result is not needed any more: the task was cancelled, its lease was lost, its timeout
 * has passed, or the worker stops. The handler should then end by itself: the worker does not wait for it, and cannot
 * end it.
 */
export type TaskHandler<Input = unknown> = (
  task: WorkerTask<Input>,
  context: FunctionContext,
) => unknown;

/** The argument of `createWorker`. `Inputs` are the types of inputs by the names of their tasks' types. */
export interface WorkerSettings<Inputs> {
  /** Base URL of the daemon, without `/v1`. */
  readonly url: string | URL;
  /** The worker's token, as `postbackd admin worker create` shows it. */
  readonly token: string;
  /** Handlers by the names of the types that are claimed; at least one. */
  readonly types: { readonly [Type in keyof Inputs]: TaskHandler<Inputs[Type]> };
  /**
   * The most concurrent tasks: of all types together, or of each type by its name. 1 unless given, and 1,000 at most
   * altogether. A type that is left out has a place of its own.
   */
  readonly concurrency?: number | { readonly [Type in keyof NoInfer<Inputs>]?: number } | undefined;
  /** The longest that a request for tasks waits at the daemon, in seconds: 30, the most, unless given. */
  readonly waitSeconds?: number | undefined;
  /** Takes an `http:` URL beyond this machine: token and tasks travel readable. */
  readonly insecureHttp?: boolean | undefined;
  /** Called once, when the daemon has accepted token and types. */
  readonly onReady?: (() => void) | undefined;
  /** Called with every value that a handler throws, with its stack. The client sees no more than the message. */
  readonly onError?: ((thrown: unknown, task: FailedTask) => void) | undefined;
  /** The logger for what an operator should know, such as pino's or the console. Silent unless given. */
  readonly log?: Logger | undefined;
}

/** The task whose handler has thrown. */
export type FailedTask = Pick<WorkerTask, "id" | "type" | "tag" | "marketplace">;

/** A worker in this program. While it runs it keeps the process alive, as a server does. */
export interface TaskWorker {
  /**
   * Claims and runs tasks until {@link stop}, and waits for a daemon that is away. Rejects when the daemon refuses the
   * worker permanently: its token was revoked, or a type is not the token's or not a worker's. To be called once.
   */
  run(): Promise<void>;
  /**
   * Claims no more. Handlers have `graceMs` to end (25,000 unless given); then their signals are aborted, and what has
   * not ended is given back without a run spent. Settles when all of it is reported, at the latest some seconds after the
   * grace. Another call can only shorten the grace.
   */
  stop(options?: { readonly graceMs?: number | undefined }): Promise<void>;
  /** {@link stop} with its own grace. */
  [Symbol.asyncDispose](): Promise<void>;
}
