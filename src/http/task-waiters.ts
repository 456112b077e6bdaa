import type { Clock } from "../domain/clock/clock.ts";
import type { TaskKey } from "../domain/task/task.ts";

/**
 * Requests that wait for a task to end. The code that ends a task notifies its waiters; nothing polls, and a waiter
 * costs a timer and an entry.
 */
export class TaskWaiters {
  readonly #clock: Clock;
  /** By the id of the task, and by the calling account. */
  readonly #waiting = new Map<string | number, Set<() => void>>();
  #isAborted = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Settles when the task has ended, when its account is disabled, when `ms` are over, when `gone` is aborted or when
   * all are broken off, whichever comes first. To be called before the task is looked at, so that no end is missed.
   */
  wait(
    { id, accountId }: TaskKey,
    { ms, gone }: { readonly ms: number; readonly gone: AbortSignal },
  ): Promise<void> {
    if (this.#isAborted || gone.aborted || ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel();
        gone.removeEventListener("abort", end);
        for (const key of [id, accountId]) {
          const others = this.#waiting.get(key);
          others?.delete(end);
          if (others?.size === 0) this.#waiting.delete(key);
        }
        resolve();
      };
      const timer = this.#clock.setTimer(ms, end);
      gone.addEventListener("abort", end);
      for (const key of [id, accountId]) {
        this.#waiting.set(key, (this.#waiting.get(key) ?? new Set()).add(end));
      }
    });
  }

  /** The tasks that requests wait for. */
  get ids(): readonly string[] {
    return [...this.#waiting.keys()].filter((key) => typeof key === "string");
  }

  /** A task has ended; its end must be committed. Or an account is disabled: its requests must be admitted again. */
  tell(key: string | number): void {
    for (const end of this.#waiting.get(key) ?? []) end();
  }

  /** Breaks off all waits, and those that begin from now on: the daemon stops. */
  abort(): void {
    this.#isAborted = true;
    for (const id of this.ids) this.tell(id);
  }
}
