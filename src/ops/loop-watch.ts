import { setInterval } from "../domain/clock/timers.ts";
import type { Logger } from "../domain/log.ts";

/**
 * How late the event loop was in the last minute, in milliseconds: everybody waited for that in addition to their own
 * request.
 */
export interface LoopDelay {
  /** It was no later than this in 99 of 100 moments. */
  readonly p99Ms: number;
  readonly worstMs: number;
}

export interface LoopWatchDeps {
  /** The machine's monotonic time in milliseconds: no other clock tells how late a loop is. */
  readonly now: () => number;
  readonly log: Logger;
}

// Ten looks a second cost nothing that can be measured.
const LOOK_MS = 100;
const MINUTE_MS = 60_000;
const KEPT = MINUTE_MS / LOOK_MS;
// Longer than anything here should take, shorter than the time after which clients give up.
const LATE_MS = 200;

/** Watches how late the event loop is, and logs it: one line a minute at most, at the end of the minute. */
export class LoopWatch {
  readonly #deps: LoopWatchDeps;
  readonly #delays = new Float64Array(KEPT);
  #count = 0;
  #lookedAt: number;
  #minuteAt: number;
  #late = { times: 0, longestMs: 0 };

  constructor(deps: LoopWatchDeps) {
    this.#deps = deps;
    this.#lookedAt = deps.now();
    this.#minuteAt = this.#lookedAt;
  }

  /** Watches from now on; does not keep the process alive. */
  start(): void {
    this.#lookedAt = this.#deps.now();
    setInterval(() => this.look(), LOOK_MS).unref();
  }

  /** To be called when {@link LOOK_MS} have passed: notes how much later it is. */
  look(): void {
    const now = this.#deps.now();
    const delayMs = Math.max(0, now - this.#lookedAt - LOOK_MS);
    this.#lookedAt = now;
    // The looks that were missed would have found it late too, each by less.
    for (let left = delayMs, i = 0; left >= 0 && i < KEPT; left -= LOOK_MS, i++) {
      this.#delays[this.#count++ % KEPT] = left;
    }
    if (delayMs > LATE_MS) {
      const longestMs = Math.max(this.#late.longestMs, delayMs);
      this.#late = { times: this.#late.times + 1, longestMs };
    }
    if (now - this.#minuteAt >= MINUTE_MS) this.#endMinute(now);
  }

  delay(): LoopDelay {
    const sorted = this.#delays.slice(0, this.#count).sort();
    const p99 = sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0;
    return { p99Ms: Math.round(p99), worstMs: Math.round(sorted.at(-1) ?? 0) };
  }

  #endMinute(now: number): void {
    const { times, longestMs } = this.#late;
    this.#minuteAt = now;
    this.#late = { times: 0, longestMs: 0 };
    if (times === 0) return;
    const facts = { longest_ms: Math.round(longestMs), times };
    this.#deps.log.warn(facts, `the event loop was blocked for more than ${LATE_MS} ms`);
  }
}
