import { readFileSync } from "node:fs";
import { uptime } from "node:os";

import {
  clearInterval,
  clearTimeout,
  dateNow,
  hrtimeNow,
  performanceNow,
  setInterval,
  setTimeout,
} from "./timers.ts";

/** A wait that was asked for and can be cancelled. */
export interface Timer {
  cancel(): void;
}

/**
 * The only source of time. Rules get `now` as a value. Every wait goes through `setTimer`, so that a virtual clock
 * drives retries of minutes and retention of weeks through the production code.
 */
export interface Clock {
  /** Milliseconds since the epoch, UTC. May step when the machine's clock is set. */
  now(): number;
  /** Milliseconds from an arbitrary start; never steps. For durations only. */
  monotonic(): number;
  /**
   * Milliseconds since the machine's boot, including suspends; never steps. Coarse (10 ms), and more expensive to read
   * than the others: it distinguishes a suspend from a clock that was set.
   */
  uptime(): number;
  /** The id of the boot from which {@link uptime} counts; null if the machine has none. */
  bootId(): string | null;
  /** Calls `fire` once, not before `delayMs` have passed. */
  setTimer(delayMs: number, fire: () => void, kind?: TimerKind): Timer;
}

/** A `tick` comes again and again: a clock that is advanced leaves out the ticks at which nothing is due. */
export type TimerKind = "once" | "tick";

/** A clock that also counts the time since its start, independent of changes of the wall clock. */
export interface SteadyClock extends Clock {
  /**
   * Milliseconds on a time line of the database, which began with the wall clock of that moment and continues across
   * restarts. Only differences mean something. Everything that is kept for a time goes by it.
   */
  steady(): number;
}

// setTimeout fires immediately for delays beyond a signed 32-bit integer; longer delays are split.
const TIMEOUT_MS_MAX = 2_147_483_647;

/** The machine's clock. Its timers do not keep a process alive that has nothing else to do. */
export const systemClock: Clock = {
  now: () => dateNow(),
  monotonic: () => performanceNow(),
  // A container may count its uptime from its own start. The second value is the kernel's own, without suspends.
  uptime: () => Math.max(uptime() * 1000, Number(hrtimeNow()) / 1e6),
  bootId: readBootId,
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

// Only Linux has it.
function readBootId(): string | null {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch {
    return null;
  }
}

/** Does work that asks again and again: timers of the clock do not keep a process alive between two questions. */
export async function aliveDuring<T>(work: () => Promise<T>): Promise<T> {
  const alive = setInterval(() => {}, 1_000_000);
  try {
    return await work();
  } finally {
    clearInterval(alive);
  }
}

/** Settles when `ms` have passed, or as soon as the signal is aborted. */
export function wait(
  ms: number,
  { clock, signal }: { readonly clock: Clock; readonly signal?: AbortSignal },
): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = clock.setTimer(ms, end);
    signal?.addEventListener("abort", end);
  });
}

/**
 * Does the work with a signal that is aborted with the given one, or when `ms` have passed. Unlike with
 * `AbortSignal.any`, nothing of it is left when the work has settled, however long the given signal lives.
 */
export async function withDeadline<Value>(
  ms: number,
  { clock, signal }: { readonly clock: Clock; readonly signal?: AbortSignal },
  work: (signal: AbortSignal) => Promise<Value>,
): Promise<Value> {
  const end = new AbortController();
  const abort = (): void => end.abort();
  if (signal?.aborted === true) abort();
  signal?.addEventListener("abort", abort);
  const timer = clock.setTimer(ms, abort);
  try {
    return await work(end.signal);
  } finally {
    timer.cancel();
    signal?.removeEventListener("abort", abort);
  }
}

/** True if the work settles within the time. Rejects as the work does. */
export async function settlesWithin(
  work: Promise<unknown>,
  ms: number,
  clock: Clock,
): Promise<boolean> {
  const timeout = new AbortController();
  const late = wait(ms, { clock, signal: timeout.signal }).then(() => false);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    timeout.abort();
  }
}
