import type { Clock } from "../domain/clock.ts";

/**
 * Requests that wait for a task to end. Whoever ends one tells; nothing is polled, and a waiter costs a timer
 * and an entry.
 */
export class TaskWaiters {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Set<() => void>>();
  #isReleased = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Settles when the task has ended, when `ms` are over, when `gone` is aborted or when all are released,
   * whichever comes first. To be called before the task is looked at, so that no end is missed.
   */
  wait(
    id: string,
    { ms, gone }: { readonly ms: number; readonly gone: AbortSignal },
  ): Promise<void> {
    if (this.#isReleased || gone.aborted || ms <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const others = this.#waiting.get(id) ?? new Set();
      const end = (): void => {
        timer.cancel();
        gone.removeEventListener("abort", end);
        others.delete(end);
        if (others.size === 0) this.#waiting.delete(id);
        resolve();
      };
      const timer = this.#clock.setTimer(ms, end);
      gone.addEventListener("abort", end);
      this.#waiting.set(id, others.add(end));
    });
  }

  /** Tells that a task has ended; its end must be committed. */
  tell(id: string): void {
    for (const end of this.#waiting.get(id) ?? []) end();
  }

  /** Lets go of all that wait, now and later: the daemon stops. */
  release(): void {
    this.#isReleased = true;
    for (const id of [...this.#waiting.keys()]) this.tell(id);
  }
}
