import { uptime } from "node:os";

/** A wait that has been asked for and can be called off. */
export interface Timer {
  cancel(): void;
}

/**
 * The only source of time. Rules get `now` as a value; every wait goes through `setTimer`, so that a
 * virtual clock drives retries of minutes and retention of weeks through the production code.
 */
export interface Clock {
  /** Milliseconds since the epoch, UTC. May step when the machine's clock is set. */
  now(): number;
  /** Milliseconds from an arbitrary start; never steps. For durations only. */
  monotonic(): number;
  /**
   * Milliseconds from an arbitrary start, a suspend of the machine included; never steps. Coarse (10 ms), and
   * dearer to ask than the others: it tells a suspend from a clock that was set.
   */
  uptime(): number;
  /** Calls `fire` once, not before `delayMs` have passed. */
  setTimer(delayMs: number, fire: () => void): Timer;
}

// setTimeout fires at once for delays beyond a signed 32-bit integer; longer ones are waited in parts.
const TIMEOUT_MS_MAX = 2_147_483_647;

/** The machine's clock. Its timers do not keep a process alive that has nothing else to do. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  uptime: () => uptime() * 1000,
  setTimer(delayMs, fire) {
    let timeout: NodeJS.Timeout;
    const wait = (leftMs: number): void => {
      const partMs = Math.min(Math.max(leftMs, 0), TIMEOUT_MS_MAX);
      const next = leftMs > partMs ? (): void => wait(leftMs - partMs) : fire;
      timeout = setTimeout(next, partMs);
      timeout.unref();
    };
    wait(delayMs);
    return { cancel: () => clearTimeout(timeout) };
  },
};
