import type { SteadyClock, Timer } from "./clock.ts";

/** A clock that stands still until it is moved. Timers fire inside the call that moves it. */
export interface VirtualClock extends SteadyClock {
  /**
   * Lets `ms` pass. Due timers fire in the order of their due times (equal ones in the order in which they were set),
   * each while the clock shows its due time. So a timer that was set by a timer fires too when it is due within the
   * same `ms`. `advance(0)` fires what is due now.
   */
  advance(ms: number): void;
  /**
   * Lets `ms` pass unseen, as when the machine was suspended: time moves first, then everything due fires late, while
   * the clock shows the new time. Timers that these set with no delay fire too.
   */
  jump(ms: number): void;
  /** Sets the wall clock by `ms`, forward or back, as an administrator does. It moves no timer. */
  step(ms: number): void;
  /** The milliseconds that each waiting timer has left, soonest first; a negative number is overdue. */
  pending(): readonly number[];
  /** Resolves when at least `count` timers wait; immediately if they already do. */
  whenPending(count: number): Promise<void>;
}

interface WaitingTimer {
  readonly dueAt: number;
  readonly fire: () => void;
}

interface PendingWatch {
  readonly count: number;
  readonly resolve: () => void;
}

// A timer that sets itself again without a delay would block the caller that moves the clock.
const FIRINGS_MAX = 1_000_000;

const NOW = Date.UTC(2026, 0, 1);

/**
 * Makes a clock that shows `now` (milliseconds since the epoch; the beginning of 2026 unless given) and starts its
 * monotonic time at 0. Retries after 15 minutes and retention of 30 days take a test milliseconds.
 */
export function createVirtualClock({ now = NOW }: { readonly now?: number } = {}): VirtualClock {
  const bootId = newBootId();
  let wallOffset = now;
  let monotonic = 0;
  let timers: readonly WaitingTimer[] = [];
  let watches: readonly PendingWatch[] = [];

  function setTimer(delayMs: number, fire: () => void): Timer {
    const timer: WaitingTimer = { dueAt: monotonic + toDelay(delayMs), fire };
    const later = timers.findIndex((other) => other.dueAt > timer.dueAt);
    timers = timers.toSpliced(later < 0 ? timers.length : later, 0, timer);
    resolveWatches();
    return { cancel: () => remove(timer) };
  }

  const remove = (timer: WaitingTimer): void =>
    void (timers = timers.filter((other) => other !== timer));

  function resolveWatches(): void {
    const met = watches.filter(({ count }) => timers.length >= count);
    watches = watches.filter(({ count }) => timers.length < count);
    for (const { resolve } of met) resolve();
  }

  function fireDue(end: number): void {
    for (let firings = 0; firings < FIRINGS_MAX; firings++) {
      const timer = timers[0];
      if (timer === undefined || timer.dueAt > end) return;
      monotonic = Math.max(monotonic, timer.dueAt);
      remove(timer);
      timer.fire();
    }
    throw new Error(`${FIRINGS_MAX} timers fired in one call: one sets itself repeatedly`);
  }

  return {
    now: () => wallOffset + monotonic,
    monotonic: () => monotonic,
    uptime: () => monotonic,
    bootId: () => bootId,
    steady: () => now + monotonic,
    setTimer,
    advance(ms) {
      const end = monotonic + toElapsed(ms);
      fireDue(end);
      monotonic = Math.max(monotonic, end);
    },
    jump(ms) {
      monotonic += toElapsed(ms);
      fireDue(monotonic);
    },
    step: (ms) => void (wallOffset += ms),
    pending: () => timers.map(({ dueAt }) => dueAt - monotonic),
    whenPending: (count) =>
      new Promise((resolve) => {
        watches = [...watches, { count, resolve }];
        resolveWatches();
      }),
  };
}

// Daemons that are started one after the other with the same clock run on the same machine; others do not.
function newBootId(): string {
  return `virtual ${crypto.randomUUID()}`;
}

// Treats a negative or missing delay as the machine's timers do.
function toDelay(delayMs: number): number {
  return delayMs > 0 ? delayMs : 0;
}

function toElapsed(ms: number): number {
  if (ms >= 0) return ms;
  throw new RangeError(
    `Time can only move forward: ${ms} ms is not a valid duration. Use step() to set the clock back.`,
  );
}
