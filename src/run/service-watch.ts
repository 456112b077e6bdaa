import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";

interface ServiceWatchOptions {
  /** The type whose tasks the service computes. */
  readonly type: string;
  readonly clock: Clock;
  readonly log: Logger;
}

// A restart of the service takes less.
const AWAY_MS = 10_000;

/**
 * Tells the operator that a service is away: once, when no request has settled a run for 10 s, and once when one does
 * again, however many tasks wait for it.
 */
export class ServiceWatch {
  readonly #options: ServiceWatchOptions;
  /** Monotonic; null while the last request was settled. */
  #awaySince: number | null = null;
  #isTold = false;

  constructor(options: ServiceWatchOptions) {
    this.#options = options;
  }

  /** A request settled a run, whether it succeeded or failed. */
  noteAnswer(): void {
    const { type, log } = this.#options;
    if (this.#isTold)
      log.info({ type, away_s: this.#awayMs() / 1000 }, "the service answers again");
    this.#awaySince = null;
    this.#isTold = false;
  }

  /** A request must be repeated, or ran into the timeout; `reason` holds no URL and no header. */
  noteFault(reason: string): void {
    const { type, log } = this.#options;
    if (this.#isTold || this.#awayMs() < AWAY_MS) return;
    this.#isTold = true;
    log.warn(
      { type, reason },
      "the service of this type has given no result for 10 s; it is asked again until each task's timeout",
    );
  }

  #awayMs(): number {
    const now = this.#options.clock.monotonic();
    this.#awaySince ??= now;
    return Math.round(now - this.#awaySince);
  }
}
