import type { Clock, Timer } from "../../../domain/clock/clock.ts";

/** The reading of the database's clock at a moment between two readings of the monotonic clock. */
export interface ClockSample {
  readonly shown: number;
  readonly sentAt: number;
  readonly heardAt: number;
}

// A minute of heartbeats: long enough that one of them met no queue on its way, short enough that no clock drifts.
const SAMPLES = 30;
// A larger difference of readings is not an error of measurement: the database's clock was set, or this machine slept.
const STEP_MS_MIN = 1000;

interface Estimate {
  /** How far the database's clock is ahead of the monotonic one. */
  readonly aheadMs: number;
  /** By how much this may be wrong. */
  readonly errorMs: number;
}

/** The boot of all readings of a database's clock. */
export const DATABASE_BOOT_ID = "database";

/**
 * The database's clock, as it is known from its answers: the middle of the round trip with the least latency of the
 * last ones. It runs while the database does not respond, and never goes back. If the database's clock was set, it
 * follows immediately, and a comparison with the monotonic clock shows the step. Timers are the machine's.
 */
export class DatabaseClock implements Clock {
  readonly #machine: Clock;
  #estimates: readonly Estimate[] = [];
  #aheadMs = 0;
  #uptimeAheadMs = 0;
  #last = 0;
  /** Monotonic. */
  #steadyAt = Infinity;

  constructor(machine: Clock) {
    this.#machine = machine;
  }

  learn({ shown, sentAt, heardAt }: ClockSample): void {
    const estimate = {
      aheadMs: shown - (sentAt + heardAt) / 2,
      errorMs: (heardAt - sentAt) / 2,
    };
    const known = this.#estimates.filter((each) => isConsistent(each, estimate));
    if (known.length === 0) this.#steadyAt = heardAt;
    // The newest is right about what has happened since.
    this.#estimates = [...known, estimate].slice(-SAMPLES);
    const best = this.#estimates.reduce((a, b) => (b.errorMs < a.errorMs ? b : a));
    this.#aheadMs = best.aheadMs;
  }

  /** For how long the database's clock has been seen to go on, without being set, and this machine without sleeping. */
  get steadyMs(): number {
    return this.#machine.monotonic() - this.#steadyAt;
  }

  /**
   * Counts the uptime as those nodes do that kept a reading before: as far behind the database's clock as the reading
   * is. So readings of different nodes can be compared, and a step that was made up for is not found again.
   */
  anchorUptime(last: { readonly wallAt: number; readonly uptimeMs: number } | null): void {
    const behindMs = last === null ? 0 : last.wallAt - last.uptimeMs;
    this.#uptimeAheadMs = this.now() - behindMs - this.#machine.uptime();
  }

  now(): number {
    const shown = Math.floor(this.#aheadMs + this.#machine.monotonic());
    const isBack = shown < this.#last && this.#last - shown < STEP_MS_MIN;
    if (!isBack) this.#last = shown;
    return this.#last;
  }

  monotonic(): number {
    return this.#machine.monotonic();
  }

  uptime(): number {
    return this.#machine.uptime() + this.#uptimeAheadMs;
  }

  /** The database's: it has one life, however often its server or a node is started. */
  bootId(): string {
    return DATABASE_BOOT_ID;
  }

  setTimer(delayMs: number, fire: () => void): Timer {
    return this.#machine.setTimer(delayMs, fire);
  }
}

function isConsistent(a: Estimate, b: Estimate): boolean {
  return Math.abs(a.aheadMs - b.aheadMs) < STEP_MS_MIN + a.errorMs + b.errorMs;
}
