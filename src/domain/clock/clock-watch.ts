import type { Clock, SteadyClock, Timer, TimerKind } from "./clock.ts";

// Smaller steps cannot be told from a tick that is up to a second late; clocks that are slewed never get here.
const STEP_MS_MIN = 1000;
// Readings further apart than this are no pair.
const READING_MS_MAX = 100;

/**
 * A clock that tells when the wall clock was set. What waits in the store waits for a time of the wall clock, but was
 * meant as a span: the listener can move it by as much. A suspend is no step, because that time has passed. And what is
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
    if (Math.abs(ahead) >= STEP_MS_MIN) this.#tellStep(ahead);
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
    if (Math.abs(step) >= STEP_MS_MIN) this.#onStep(Math.round(step));
  }
}
