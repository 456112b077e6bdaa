import type { TaskWorker, WorkerSettings } from "./worker/options.ts";
import { newTaskWorker } from "./worker/task-worker.ts";

/** The names that `import … from "postbackd/worker"` gives. */
export { TaskFailure } from "./domain/task/function.ts";
export type { FunctionContext, TaskFailureOptions } from "./domain/task/function.ts";
export type { LogFacts, Logger } from "./domain/log.ts";
export type {
  FailedTask,
  TaskHandler,
  TaskWorker,
  WorkerSettings,
  WorkerTask,
} from "./worker/options.ts";

/**
 * Makes a worker that claims tasks from a daemon and runs a function for each; it begins with `run()`. Needs Node 20 or
 * newer, and nothing else. Throws a TypeError that names every setting that is wrong.
 */
export function createWorker<Inputs>(settings: WorkerSettings<Inputs>): TaskWorker {
  return newTaskWorker(settings);
}
