import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from "../shell/format.ts";

/** The shown part of the timeline: times in milliseconds since the epoch. */
export interface TimeView {
  readonly from: number;
  readonly to: number;
  /** The zero of the axis. */
  readonly zero: number;
}

export interface Tick {
  /** In percent of the view. */
  readonly left: number;
  /** Milliseconds after the view's zero. */
  readonly afterMs: number;
}

const STEPS_MS: readonly number[] = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND_MS),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE_MS),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR_MS),
  ...[1, 2, 5, 10, 20, 50, 100].map((count) => count * DAY_MS),
];

// A shorter span would be a line.
const SPAN_MS_MIN = 10;

// Beyond it there is no room for the text.
const TICK_LEFT_MAX = 93;

/** The view of a span, with room at its end for the last label. */
export function viewOf(from: number, to: number, zero = from): TimeView {
  const span = Math.max(SPAN_MS_MIN, to - from);
  return { from: from - span * 0.015, to: from + span * 1.16, zero };
}

/** The position of a time, in percent of the view; outside of it below 0 or over 100. */
export function leftOf(at: number, { from, to }: TimeView): number {
  return ((at - from) / (to - from)) * 100;
}

/** Round times on the axis, at most `max` and perhaps a few less. */
export function ticksOf(view: TimeView, max: number): readonly Tick[] {
  const span = view.to - view.from;
  const step = STEPS_MS.find((each) => span / each <= max) ?? Math.ceil(span / max);
  const first = Math.ceil((view.from - view.zero) / step);
  const last = Math.floor((view.to - view.zero) / step);
  const ticks = Array.from({ length: last - first + 1 }, (_, i) => {
    const afterMs = (first + i) * step;
    return { left: leftOf(view.zero + afterMs, view), afterMs };
  });
  return ticks.filter(({ left }) => left <= TICK_LEFT_MAX);
}
