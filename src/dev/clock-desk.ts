import type { DevEvent } from "../api/dev.ts";
import { type Clock, type SteadyClock, systemClock } from "../domain/clock/clock.ts";
import { DAY_MS, HOUR_MS } from "../domain/clock/duration.ts";
import { parseWebhookId } from "../domain/webhook/webhook-request.ts";
import type { DueItem, DueList } from "../store/store.ts";
import type { ClockMode, DevClock } from "./dev-clock.ts";
import type { WorkWatch } from "./work-watch.ts";

/** So far the clock is advanced until nothing is scheduled any more. */
export const IDLE_MS_MAX = 60 * DAY_MS;

/** So long an advance waits for work of the machine's time before it says what it waits for. */
const STILL_MS_MAX = 30_000;

// How long tasks wait in the queue is counted while the daemon runs, an hour at most in one step.
const QUEUED_STRIDE_MS = HOUR_MS;

/** The most events that are kept between two advances. */
const KEPT_EVENTS_MAX = 100_000;

export interface ClockDeskParts {
  readonly clock: DevClock;
  readonly work: WorkWatch;
  /** By it goes what the daemon keeps for a time. */
  readonly steady: Pick<SteadyClock, "steady">;
  readonly due: DueList;
  readonly notes: Pick<DueNotes, "list">;
}

/** The end of an advance: a time of the wall clock, or a moment at which nothing is scheduled. */
export type Destination = { readonly at: number } | "idle";

/** The time at the end of an advance, and the events since the previous one that arrived. */
export interface Journey {
  readonly now: number;
  readonly events: readonly DevEvent[];
  /** The work that the clock waits for; empty when it has arrived. */
  readonly waitsFor: readonly string[];
}

export class ClockDesk {
  readonly #parts: ClockDeskParts;
  /** The events since the last advance that returned events, in their order. */
  #events: DevEvent[] = [];
  #last: Promise<unknown> = Promise.resolve();
  /** The mode after the advance in progress; null without one. */
  #modeAfter: ClockMode | null = null;

  constructor(parts: ClockDeskParts) {
    this.#parts = parts;
  }

  get mode(): ClockMode {
    return this.#modeAfter ?? this.#parts.clock.mode;
  }

  set mode(mode: ClockMode) {
    if (this.#modeAfter === null) this.#parts.clock.mode = mode;
    else this.#modeAfter = mode;
  }

  now(): number {
    return this.#parts.clock.now();
  }

  next(max: number): readonly DueItem[] {
    const { clock, steady, due, notes } = this.#parts;
    const stored = due.list({ now: clock.now(), steady: steady.steady(), max });
    return [...stored, ...notes.list()].toSorted((one, other) => one.at - other.at).slice(0, max);
  }

  /** Notes an event for the current or next advance. A clock that goes by itself keeps none. */
  tell(event: DevEvent): void {
    if (this.#parts.clock.mode === "real") return;
    if (this.#modeAfter === null && this.#events.length >= KEPT_EVENTS_MAX) this.#events.shift();
    this.#events.push(event);
  }

  clear(): void {
    if (this.#modeAfter === null) this.#events = [];
  }

  /**
   * Moves the clock from one thing that falls due to the next, and lets each have its consequences, up to the
   * destination. Gives up when nothing has gone on for 30 s of the machine's time, and when `signal` is aborted; what has
   * happened by then has happened. Advances come one after the other.
   */
  advance(destination: Destination, signal: AbortSignal): Promise<Journey> {
    const journey = this.#last.then(() => this.#travel(destination, signal));
    this.#last = journey.catch(() => {});
    return journey;
  }

  async #travel(destination: Destination, signal: AbortSignal): Promise<Journey> {
    const { clock } = this.#parts;
    this.#modeAfter = clock.mode;
    clock.mode = "manual";
    const end = destination === "idle" ? clock.now() + IDLE_MS_MAX : destination.at;
    try {
      let waitsFor = await this.#settle(signal);
      this.#events = byTask(this.#events);
      while (waitsFor.length === 0 && !this.#hasArrived(destination, end)) {
        clock.moveBy(Math.min(this.#untilNext(), end - clock.now()));
        waitsFor = await this.#settle(signal);
      }
      // An advance that stops on its way returns no events: the next one does.
      const events = waitsFor.length === 0 ? this.#events.splice(0) : [];
      return { now: clock.now(), events, waitsFor };
    } finally {
      const mode = this.#modeAfter;
      this.#modeAfter = null;
      clock.mode = mode;
    }
  }

  #hasArrived(destination: Destination, end: number): boolean {
    if (this.now() >= end) return true;
    // Retention of results for weeks does not count as work.
    return destination === "idle" && this.#parts.clock.untilNext() === Infinity && this.#isIdle();
  }

  #isIdle(): boolean {
    return this.next(Number.MAX_SAFE_INTEGER).every(({ what }) => what === "erasure");
  }

  #untilNext(): number {
    const [next] = this.next(1);
    const untilDue = next === undefined ? Infinity : next.at - this.now();
    const stride = this.#parts.due.isQueued() ? QUEUED_STRIDE_MS : Infinity;
    return Math.min(untilDue, this.#parts.clock.untilNext(), stride);
  }

  /** Resolves when no work is in progress; after a time-out returns the work in progress. */
  async #settle(signal: AbortSignal): Promise<readonly string[]> {
    const { work } = this.#parts;
    const tooLong = new AbortController();
    const timer = systemClock.setTimer(STILL_MS_MAX, () => tooLong.abort());
    try {
      await work.settled(AbortSignal.any([signal, tooLong.signal]));
      return [];
    } catch (error) {
      if (!tooLong.signal.aborted || signal.aborted) throw error;
      return work.underWay();
    } finally {
      timer.cancel();
    }
  }
}

/** Groups the events of each moment by task: their order among tasks depends on the machine's speed. */
function byTask(events: readonly DevEvent[]): DevEvent[] {
  const groups = Map.groupBy(events, ({ at, task_id }) => `${at} ${task_id}`);
  return [...groups.values()].flat();
}

/** Knows what falls due that no store does: how what is under way now ends when nothing else ends it. */
export class DueNotes {
  readonly #clock: Clock;
  readonly #items = new Set<DueItem>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes what falls due in `ms`; the function that it answers takes that back. */
  note(what: Omit<DueItem, "at">, ms: number): () => void {
    const item = { ...what, at: this.#clock.now() + ms };
    this.#items.add(item);
    return () => void this.#items.delete(item);
  }

  /** Notes what falls due for a webhook; nothing for one about no task. */
  noteWebhook(what: DueItem["what"], { id, ms }: { readonly id: string; readonly ms: number }) {
    const delivery = parseWebhookId(id);
    return delivery === null ? () => {} : this.note({ what, ...delivery }, ms);
  }

  list(): readonly DueItem[] {
    const now = this.#clock.now();
    return [...this.#items].filter(({ at }) => at > now);
  }
}
