import { systemClock, type Clock, type Timer, type TimerKind } from "../domain/clock/clock.ts";
import { dateNow, performanceNow } from "../domain/clock/timers.ts";

export type ClockMode = "real" | "manual";

interface WaitingTimer {
  readonly dueAt: number;
  readonly kind: TimerKind;
  readonly fire: () => void;
}

/** The clock of a daemon for development: the machine's (`real`), or moved by hand (`manual`). It never goes back. */
export class DevClock implements Clock {
  #mode: ClockMode;
  /** How far the wall clock, and the monotonic time, are ahead of the machine's; while it stands still, where it stands. */
  #wall: number;
  #monotonic: number;
  /** In the order of their due times, equal ones in the order in which they were set. */
  readonly #timers: WaitingTimer[] = [];
  #alarm: Timer | null = null;
  readonly #bootId = `dev ${crypto.randomUUID()}`;

  /** A clock that stands still begins at `startAt`; one that goes, now. */
  constructor({ mode, startAt }: { readonly mode: ClockMode; readonly startAt?: number }) {
    this.#mode = mode;
    this.#wall = mode === "manual" ? (startAt ?? dateNow()) : 0;
    this.#monotonic = 0;
  }

  get mode(): ClockMode {
    return this.#mode;
  }

  set mode(mode: ClockMode) {
    if (mode === this.#mode) return;
    const sign = mode === "manual" ? 1 : -1;
    this.#wall += sign * dateNow();
    this.#monotonic += sign * performanceNow();
    this.#mode = mode;
    this.#arm();
  }

  now(): number {
    return this.#mode === "manual" ? Math.floor(this.#wall) : Math.floor(this.#wall + dateNow());
  }

  monotonic(): number {
    return this.#mode === "manual" ? this.#monotonic : this.#monotonic + performanceNow();
  }

  uptime(): number {
    return this.monotonic();
  }

  bootId(): string {
    return this.#bootId;
  }

  setTimer(delayMs: number, fire: () => void, kind: TimerKind = "once"): Timer {
    const timer = { dueAt: this.monotonic() + Math.max(0, delayMs || 0), kind, fire };
    const later = this.#timers.findLastIndex(({ dueAt }) => dueAt <= timer.dueAt) + 1;
    this.#timers.splice(later, 0, timer);
    if (later === 0) this.#arm();
    return { cancel: () => this.#remove(timer) };
  }

  /** The time until the next timer that is not a tick; Infinity without one. */
  untilNext(): number {
    const next = this.#timers.find(({ kind }) => kind === "once");
    return next === undefined ? Infinity : Math.max(0, next.dueAt - this.monotonic());
  }

  /** Moves a clock that stands still, and fires the timers that are due then, and every tick. */
  moveBy(ms: number): void {
    this.#wall += ms;
    this.#monotonic += ms;
    this.#fire((timer) => timer.kind === "tick" || timer.dueAt <= this.#monotonic);
  }

  close(): void {
    this.#timers.length = 0;
    this.#arm();
  }

  #fire(isDue: (timer: WaitingTimer) => boolean): void {
    const due = this.#timers.filter(isDue);
    for (const timer of due) {
      // One that was fired before may have cancelled it.
      if (!this.#remove(timer)) continue;
      timer.fire();
    }
  }

  #remove(timer: WaitingTimer): boolean {
    const index = this.#timers.indexOf(timer);
    if (index < 0) return false;
    this.#timers.splice(index, 1);
    if (index === 0) this.#arm();
    return true;
  }

  #arm(): void {
    this.#alarm?.cancel();
    this.#alarm = null;
    const next = this.#timers[0];
    if (next === undefined || this.#mode === "manual") return;
    this.#alarm = systemClock.setTimer(next.dueAt - this.monotonic(), () => {
      this.#alarm = null;
      const now = this.monotonic();
      this.#fire(({ dueAt }) => dueAt <= now);
      if (this.#alarm === null) this.#arm();
    });
  }
}
