import type { Clock } from "../domain/clock/clock.ts";

/** Lets a loop wait until something has changed or its time is up. */
export class Waker {
  readonly #clock: Clock;
  #next = Promise.withResolvers<void>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Wakes whoever waits. A wake while nobody waits is not remembered: look first, then wait. */
  wake(): void {
    this.#next.resolve();
    this.#next = Promise.withResolvers();
  }

  /** Waits for the next wake, or for `ms` at most; null: without a limit. */
  async wait(ms: number | null): Promise<void> {
    if (ms === null) return this.#next.promise;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = this.#clock.setTimer(ms, resolve);
    await Promise.race([this.#next.promise, promise]);
    timer.cancel();
  }
}
