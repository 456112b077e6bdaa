import type { Clock } from "../domain/clock/clock.ts";

/** Lets a loop wait until something has changed or its time is up. */
export class Waker {
  readonly #clock: Clock;
  readonly #waiting = new Set<() => void>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Wakes whoever waits. A wake while nobody waits is not remembered: look first, then wait. */
  wake(): void {
    for (const end of this.#waiting) end();
  }

  /** Waits for the next wake, or for `ms` at most; null: without a limit. */
  wait(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        this.#waiting.delete(end);
        timer?.cancel();
        resolve();
      };
      const timer = ms === null ? null : this.#clock.setTimer(ms, end);
      this.#waiting.add(end);
    });
  }
}
