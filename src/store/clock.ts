import type { ClockReading, Resumption } from "../domain/clock/service-clock.ts";

/** The clock as it is found at a start. */
export interface ClockResumption extends Omit<Resumption, "steadyAt"> {
  readonly reading: ClockReading;
}

export interface ClockStore {
  /** Finds what the clocks showed when they were last kept; null in a new file. */
  findClockReading(): Promise<ClockReading | null>;
  keepClockReading(reading: ClockReading): Promise<void>;
  /**
   * Resumes after a start. Moves what waits, as {@link shiftTimes} does, by the amount that the clock was set since the
   * last reading; ends all sessions and sign-in links where nobody knows how much time has passed; and keeps the new
   * reading. Answers how many attempts moved.
   */
  resumeClock(start: ClockResumption): Promise<number>;
  /**
   * Moves these by `by` milliseconds: every attempt that is scheduled for after `after`, the next runs of failed tasks,
   * all leases that are held, and sign-in links. The wall clock was set, and their times were meant as durations.
   * Answers how many attempts moved.
   */
  shiftTimes(shift: { after: number; by: number }): Promise<number>;
  /**
   * Makes first attempts that are scheduled for later than `now` due at `now`, and retries that are scheduled for later
   * than `latest` due at `latest`: no correct clock can have scheduled them so. Answers how many.
   */
  hastenAttempts(bounds: { now: number; latest: number }): Promise<number>;
}
