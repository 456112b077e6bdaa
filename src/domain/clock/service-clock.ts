import { idTimeMs, isId } from "../id.ts";
import type { Clock, SteadyClock, Timer, TimerKind } from "./clock.ts";
import { DAY_MS, HOUR_MS } from "./duration.ts";

/** The readings of a machine's clocks at one moment, kept for the next start. */
export interface ClockReading {
  readonly wallAt: number;
  readonly steadyAt: number;
  readonly uptimeMs: number;
  readonly bootId: string | null;
}

export function readClocks(clock: SteadyClock): ClockReading {
  return {
    wallAt: clock.now(),
    steadyAt: clock.steady(),
    uptimeMs: clock.uptime(),
    bootId: clock.bootId(),
  };
}

/** The time since the last reading, as far as a start knows it. */
export interface Resumption {
  readonly steadyAt: number;
  /** By how many milliseconds the wall clock was set meanwhile; 0 when nothing shows that it was. */
  readonly stepMs: number;
  /** False if the elapsed time is unknown, because the machine was rebooted. */
  readonly isElapsedKnown: boolean;
}

// Two readings of a coarse uptime may differ by so much, and so may a clock that is slewed, or the clock of a database as
// two of its nodes know it: none of that is a step, nor a reboot.
const STEP_MS_MIN = 1000;

/**
 * Decides how much time has passed since an earlier process read the clocks, and by how much the wall clock was set
 * since. Within one boot the uptime has it to the millisecond. Across a reboot only the wall clock has it, and the
 * machine may have been off for a year, or its clock may have lost power. Then the steady clock stands still, so that
 * nothing is erased early, and only what must be a step of the wall clock counts as one: that it went back.
 */
export function decideResumption(
  last: ClockReading | null,
  now: Omit<ClockReading, "steadyAt">,
): Resumption {
  if (last === null) return { steadyAt: now.wallAt, stepMs: 0, isElapsedKnown: true };
  const passedMs = now.uptimeMs - last.uptimeMs;
  const isSameBoot = last.bootId !== null && last.bootId === now.bootId && passedMs > -STEP_MS_MIN;
  const elapsedMs = isSameBoot ? Math.max(0, Math.round(passedMs)) : 0;
  const aheadMs = now.wallAt - last.wallAt - elapsedMs;
  const isStep = isSameBoot ? Math.abs(aheadMs) >= STEP_MS_MIN : aheadMs <= -STEP_MS_MIN;
  return {
    steadyAt: last.steadyAt + elapsedMs,
    stepMs: isStep ? aheadMs : 0,
    isElapsedKnown: isSameBoot,
  };
}

/** How long the answer to an idempotency key is kept (http-api.md). */
export const IDEMPOTENCY_MS = DAY_MS;

/** A task whose retention is over while one of its webhooks is still to be sent is looked at again after this time. */
export const OPEN_DELIVERY_MS = HOUR_MS;

/** A moment by the wall clock and by the steady clock. */
export interface Moment {
  /** Milliseconds since the epoch by the machine's clock, as responses show them. */
  readonly at: number;
  /** The reading of {@link SteadyClock.steady} at the same moment. */
  readonly steadyAt: number;
}

/** The end of a task's retention: the time that clients see, and the time that the sweep uses. */
export interface RetentionEnd {
  /** By the wall clock at the moment when the task ended: never changed, because the webhook carries it too. */
  readonly expiresAt: number;
  /** By the steady clock: setting the wall clock does not move it. */
  readonly eraseAt: number;
}

export function retentionEnd({ at, steadyAt }: Moment, retentionMs: number): RetentionEnd {
  return { expiresAt: at + retentionMs, eraseAt: steadyAt + retentionMs };
}

/** True if an unknown id may once have been a task whose results have expired (status-codes.md, 40403). */
export function isExpiredId(id: string, facts: { now: number; retentionMs: number }): boolean {
  return isId(id) && idTimeMs(id) < facts.now - facts.retentionMs;
}

// Smaller steps look like a tick that is up to a second late; clocks that are slewed never reach this.
const WALL_STEP_MS_MIN = 1000;
// Readings further apart than this do not belong together.
const READING_MS_MAX = 100;

/**
 * A clock that reports changes of the wall clock. Due times in the store are times of the wall clock, but mean spans:
 * the listener can move them by the same amount. A suspend is not a step, because that time has passed. And what is
 * kept in the store for a time goes by {@link steady}, which no step moves.
 */
export class ClockWatch implements SteadyClock {
  readonly #clock: Clock;
  #onStep: (byMs: number) => void = () => {};
  #wall: number;
  #monotonic: number;
  /** How far the uptime is ahead of the monotonic time: as long as the machine slept. */
  #sleptMs: number;
  /** How far the steady clock is ahead of the monotonic time plus the sleep. */
  #steadyAheadMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    const { wall, monotonic } = this.#read();
    this.#wall = wall;
    this.#monotonic = monotonic;
    this.#sleptMs = clock.uptime() - this.#monotonic;
    this.#steadyAheadMs = wall - monotonic - this.#sleptMs;
  }

  /** Continues the steady clock from here; until then it shows what the wall clock did when this began. */
  resumeSteady(steadyAt: number): void {
    this.#steadyAheadMs += steadyAt - this.steady();
  }

  /** Calls `tell` with the step in milliseconds, inside the first {@link now} after it and before that returns. */
  watch(tell: (byMs: number) => void): void {
    this.#onStep = tell;
  }

  now(): number {
    const { wall, monotonic } = this.#read();
    const ahead = wall - this.#wall - (monotonic - this.#monotonic);
    this.#wall = wall;
    this.#monotonic = monotonic;
    if (Math.abs(ahead) >= WALL_STEP_MS_MIN) this.#tellStep(ahead);
    return wall;
  }

  // A process that was stopped between the two would take the pause for a step back, and then for one forward.
  #read(): { readonly wall: number; readonly monotonic: number } {
    for (;;) {
      const before = this.#clock.monotonic();
      const wall = this.#clock.now();
      const monotonic = this.#clock.monotonic();
      if (monotonic - before < READING_MS_MAX) return { wall, monotonic };
    }
  }

  monotonic(): number {
    return this.#clock.monotonic();
  }

  uptime(): number {
    return this.#clock.uptime();
  }

  bootId(): string | null {
    return this.#clock.bootId();
  }

  steady(): number {
    // Checks whether the machine has slept since.
    this.now();
    return Math.floor(this.#monotonic + this.#sleptMs + this.#steadyAheadMs);
  }

  setTimer(delayMs: number, fire: () => void, kind?: TimerKind): Timer {
    return this.#clock.setTimer(delayMs, fire, kind);
  }

  #tellStep(ahead: number): void {
    const sleptMs = this.#clock.uptime() - this.#monotonic;
    const step = ahead - (sleptMs - this.#sleptMs);
    this.#sleptMs = sleptMs;
    if (Math.abs(step) >= WALL_STEP_MS_MIN) this.#onStep(Math.round(step));
  }
}
