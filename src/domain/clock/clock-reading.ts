import type { SteadyClock } from "./clock.ts";

/** The readings of a machine's clocks at one moment, kept for the next start. */
export interface ClockReading {
  readonly wallAt: number;
  readonly steadyAt: number;
  readonly uptimeMs: number;
  readonly bootId: string | null;
}

/** Reads what the clocks show now. */
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
  /** The time at which the steady clock continues. */
  readonly steadyAt: number;
  /** By how many milliseconds the wall clock was set meanwhile; 0 when nothing shows that it was. */
  readonly stepMs: number;
  /** False when nobody can say how much time has passed: the machine was rebooted. */
  readonly isElapsedKnown: boolean;
}

// Two readings of a coarse uptime may differ by so much, and so may a clock that is slewed, or the clock of a database as
// two of its nodes know it: none of that is a step, nor a reboot.
const STEP_MS_MIN = 1000;

/**
 * Decides how much time has passed since an earlier process read the clocks, and by how much the wall clock was set
 * since. Within one boot the uptime tells it to the millisecond. Across a reboot only the wall clock could tell, and
 * the machine may have been off for a year, or have lost its battery. Then the steady clock stands still, so that
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
