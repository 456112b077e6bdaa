import type { ClockReading, Resumption } from "../domain/clock/clock-reading.ts";

/** What the store does with the machine's clock; re-exported by store.ts. */

/** The clock as a start finds it. */
export interface ClockResumption extends Omit<Resumption, "steadyAt"> {
  readonly reading: ClockReading;
}

export interface ClockStore {
  /** What the clocks showed when they were last kept; null in a new file. */
  findClockReading(): Promise<ClockReading | null>;
  keepClockReading(reading: ClockReading): Promise<void>;
  /**
   * A start: moves what waits, as {@link shiftTimes} does, by how much the clock was set since the last reading; ends all
   * sessions and sign-in links where nobody knows how much time has passed; and keeps the new reading. Answers how
   * many attempts moved.
   */
  resumeClock(start: ClockResumption): Promise<number>;
  /**
   * Moves by `by` milliseconds every attempt that is scheduled for after `after`, the next runs of tasks that failed, all
   * leases that are held, and sign-in links, because the wall clock was set and their times were meant as durations.
   * Answers how many attempts moved.
   */
  shiftTimes(shift: { after: number; by: number }): Promise<number>;
  /**
   * Makes first attempts due at `now` that are scheduled for later, and retries due at `latest`: no clock that was
   * right has scheduled them so. Answers how many.
   */
  hastenAttempts(bounds: { now: number; latest: number }): Promise<number>;
}
