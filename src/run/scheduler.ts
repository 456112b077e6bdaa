import { Cron } from "croner";

import type { Clock, Timer } from "../domain/clock/clock.ts";

/**
 * Calls jobs by cron pattern. croner only computes when a pattern's next time is; the wait goes through the Clock, and
 * the store decides what is due at a tick. A late tick (a suspend, a clock that was set) is one tick, not a burst: the
 * next time is computed from now.
 */
export class Scheduler {
  readonly #clock: Clock;
  readonly #timers = new Set<Timer>();
  #isDraining = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `tick` at every time that the pattern names (five fields, or six with the seconds first; UTC) until {@link drain}. */
  every(pattern: string, tick: () => void): void {
    // An offset is added; a time zone by its name is looked up in ICU, 20 ms for the first time and 35 µs for each.
    const cron = new Cron(pattern, { utcOffset: 0, paused: true });
    this.#wait(cron, tick);
  }

  /** Ends all ticks. Safe to call twice. */
  drain(): void {
    this.#isDraining = true;
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
  }

  #wait(cron: Cron, tick: () => void): void {
    const now = this.#clock.now();
    const next = cron.nextRun(new Date(now));
    if (next === null || this.#isDraining) return;
    const fire = (): void => {
      this.#timers.delete(timer);
      // Rearmed first, so that a tick that throws is not the last one.
      this.#wait(cron, tick);
      tick();
    };
    const timer = this.#clock.setTimer(next.getTime() - now, fire, "tick");
    this.#timers.add(timer);
  }
}
