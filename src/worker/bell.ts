import type { Clock } from "../domain/clock/clock.ts";

/** What a loop waits at: something has changed, or its time is up. */
export class Bell {
  readonly #clock: Clock;
  #rung = Promise.withResolvers<void>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  /** Wakes whoever waits. What is rung while nobody waits is not remembered: look first, then wait. */
  ring(): void {
    this.#rung.resolve();
    this.#rung = Promise.withResolvers();
  }

  /** Waits for the next ring, or for `ms` at most; null: without a limit. */
  async within(ms: number | null): Promise<void> {
    if (ms === null) return this.#rung.promise;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = this.#clock.setTimer(ms, resolve);
    await Promise.race([this.#rung.promise, promise]);
    timer.cancel();
  }
}
