import type { TaskProgress } from "../../domain/task/progress.ts";

/** How far the tasks have come that run now, as their runs say. In memory: a restart begins with nothing known. */
export class ProgressBoard {
  readonly #byTask = new Map<string, TaskProgress>();

  /** Notes what a run reported last. To be called only while the task runs, and so bounded by what runs. */
  note(id: string, progress: TaskProgress): void {
    this.#byTask.set(id, progress);
  }

  /** The task's run has ended, however. */
  forget(id: string): void {
    this.#byTask.delete(id);
  }

  /** Null where the task does not run, or has reported nothing. */
  of(id: string): TaskProgress | null {
    return this.#byTask.get(id) ?? null;
  }
}
