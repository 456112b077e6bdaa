import type { TaskProgress } from "../../domain/task/progress.ts";

/** The progress of the running tasks, as their runs report it. It is in memory: after a restart nothing is known. */
export class ProgressBoard {
  readonly #byTask = new Map<string, TaskProgress>();

  /** Notes the last report of a run. To be called only while the task runs, so the number of runs bounds it. */
  note(id: string, progress: TaskProgress): void {
    this.#byTask.set(id, progress);
  }

  /** The task's run has ended, in whatever way. */
  forget(id: string): void {
    this.#byTask.delete(id);
  }

  /** Null when the task does not run, or has reported nothing. */
  of(id: string): TaskProgress | null {
    return this.#byTask.get(id) ?? null;
  }
}
