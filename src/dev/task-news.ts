/** Tells requests that wait for it when something has happened to a task. */
export class TaskNews {
  readonly #waiting = new Map<string, Set<() => void>>();

  /**
   * Settles when the next thing has happened to a task, or `signal` is aborted. To be called before the task is looked at,
   * so that nothing is missed in between.
   */
  next(taskId: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(taskId) ?? new Set();
      const end = (): void => {
        signal.removeEventListener("abort", end);
        waiting.delete(end);
        if (waiting.size === 0) this.#waiting.delete(taskId);
        resolve();
      };
      signal.addEventListener("abort", end);
      this.#waiting.set(taskId, waiting.add(end));
    });
  }

  /** Tells that something has happened to a task, and is on disk. */
  tell(taskId: string): void {
    for (const end of [...(this.#waiting.get(taskId) ?? [])]) end();
  }
}
