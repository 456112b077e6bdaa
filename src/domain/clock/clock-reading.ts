import type { SteadyClock } from "./clock.ts";

/** What the clocks of a machine showed at one moment, kept for the next start. */
export interface ClockReading {
  readonly wallAt: number;
  readonly steadyAt: number;
  readonly uptimeMs: number;
  readonly bootId: string | null;
}

/** What the clocks show now. */
export function readClocks(clock: SteadyClock): ClockReading {
  return {
    wallAt: clock.now(),
    steadyAt: clock.steady(),
    uptimeMs: clock.uptime(),
    bootId: clock.bootId(),
  };
}

/** What a start knows of the time since the last reading. */
export interface Resumption {
  /** Where the steady clock goes on. */
  readonly steadyAt: number;
  /** By how much the wall clock was set meanwhile, in milliseconds; 0 where nothing says that it was. */
  readonly stepMs: number;
  /** False where nobody can say how much time has passed: the machine was started anew. */
  readonly isElapsedKnown: boolean;
}

// What two readings of a coarse uptime may be apart, and what a clock that is slewed gains: none of it is a step.
const STEP_MS_MIN = 1000;

/**
 * Decides how much time has passed since an earlier process read the clocks, and by how much the wall clock was set
 * since. Within one boot the uptime says it to the millisecond. Over a reboot only the wall clock could, and the machine
 * may have been off for a year as well as have lost its battery: then the steady clock stands still, so that nothing
 * is erased early, and of the wall clock only what cannot be otherwise counts as a step: that it went back.
 */
export function decideResumption(
  last: ClockReading | null,
  now: Omit<ClockReading, "steadyAt">,
): Resumption {
  if (last === null) return { steadyAt: now.wallAt, stepMs: 0, isElapsedKnown: true };
  const passedMs = now.uptimeMs - last.uptimeMs;
  const isSameBoot = last.bootId !== null && last.bootId === now.bootId && passedMs >= 0;
  const elapsedMs = isSameBoot ? Math.round(passedMs) : 0;
  const aheadMs = now.wallAt - last.wallAt - elapsedMs;
  const isStep = isSameBoot ? Math.abs(aheadMs) >= STEP_MS_MIN : aheadMs <= -STEP_MS_MIN;
  return {
    steadyAt: last.steadyAt + elapsedMs,
    stepMs: isStep ? aheadMs : 0,
    isElapsedKnown: isSameBoot,
  };
}
