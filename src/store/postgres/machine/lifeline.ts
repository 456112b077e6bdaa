import type { Clock } from "../../../domain/clock/clock.ts";

/** The readings of the machine's clocks at one moment. */
export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
  readonly uptime: number;
}

/**
 * Tells whether the other nodes may take this one for dead: they may once its last good heartbeat was begun too long
 * ago. It is decided at the moment of asking, so a process that was stopped is told the truth by its first question.
 */
export class Lifeline {
  readonly #clock: Clock;
  readonly #msMax: number;
  #heard: Moment | null = null;

  constructor(clock: Clock, msMax: number) {
    this.#clock = clock;
    this.#msMax = msMax;
  }

  /** The beginning of a heartbeat, to be given to {@link hold} when it was answered. */
  begin(): Moment {
    const clock = this.#clock;
    return { monotonic: clock.monotonic(), wall: clock.now(), uptime: clock.uptime() };
  }

  hold(begun: Moment): void {
    this.#heard = begun;
  }

  /** From now on it is cut, until it is held again. */
  cut(): void {
    this.#heard = null;
  }

  get isCut(): boolean {
    return this.leftMs <= 0;
  }

  /** How long it holds yet if nothing is heard. */
  get leftMs(): number {
    return this.#heard === null ? 0 : this.#msMax - this.#passedMs(this.#heard);
  }

  /** How long nothing has been heard. */
  get silentMs(): number {
    return this.#heard === null ? Infinity : this.#passedMs(this.#heard);
  }

  #passedMs({ monotonic, wall, uptime }: Moment): number {
    const passedMs = this.#clock.monotonic() - monotonic;
    // The monotonic clock stands still while a machine sleeps. The uptime, which does not, costs 10 µs: it is read when
    // the wall clock says that it may matter.
    if (passedMs > this.#msMax || this.#clock.now() - wall <= this.#msMax) return passedMs;
    return Math.max(passedMs, this.#clock.uptime() - uptime);
  }
}
