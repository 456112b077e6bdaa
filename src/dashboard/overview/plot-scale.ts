import { DAY_MS, MINUTE_MS } from "../../domain/clock/duration.ts";

/** Computes where values lie on a chart, in pixels: scales, marks on the axes, and paths in SVG's form. */

export type Scale = (value: number) => number;

/** A point of the drawing; null interrupts a line. */
export type Point = readonly [x: number, y: number] | null;

type Span = readonly [from: number, to: number];

/** Lays the range of an axis over pixels; a value beyond it is drawn at the edge. */
export function axisScale({ kind, range }: Pick<ChartAxis, "kind" | "range">, pixels: Span): Scale {
  const measure =
    kind === "logarithmic" ? (value: number) => Math.log10(Math.max(value, TINY)) : same;
  const [min, max] = [measure(range[0]), measure(range[1])];
  return (value) => {
    const share = clamp((measure(value) - min) / (max - min), 0, 1);
    return pixels[0] + share * (pixels[1] - pixels[0]);
  };
}

// It has a logarithm, and is below everything that is shown.
const TINY = 1e-9;

function same(value: number): number {
  return value;
}

/** Lays the time of a chart over pixels, and finds the time of a pixel. */
export function timeScale(steps: readonly ChartStep[], [left, right]: Span) {
  const from = steps.at(0)?.from ?? 0;
  const to = steps.at(-1)?.to ?? from + 1;
  const perMs = (right - left) / Math.max(1, to - from);
  return {
    from,
    to,
    x: (at: number) => left + (at - from) * perMs,
    at: (x: number) => clamp(from + (x - left) / perMs, from, to),
  };
}

/** The value, or the nearer end of the range where it is outside. */
export function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value));
}

/** The step of a moment; -1 without one. The end of the last step belongs to it. */
export function stepAt(steps: readonly ChartStep[], at: number): number {
  if (at === steps.at(-1)?.to) return steps.length - 1;
  return steps.findIndex(({ from, to }) => from <= at && at < to);
}

/** The values to mark on an axis, at most `marksMax`: round ones, or powers of ten. */
export function axisMarks(axis: Omit<ChartAxis, "text">, marksMax: number): readonly number[] {
  const [min, max] = axis.range;
  if (axis.kind === "logarithmic") return powersOfTen(axis.range, marksMax);
  const interval = smallestFitting(axis.intervals, (max - min) / marksMax);
  const first = Math.ceil(min / interval - ROUNDING);
  const last = Math.floor(max / interval + ROUNDING);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * interval);
}

// 0.9 / 0.02 is 45.00000000000001.
const ROUNDING = 1e-9;

function smallestFitting(intervals: readonly number[], wanted: number): number {
  const fitting = intervals.find((interval) => interval >= wanted);
  return fitting ?? Math.max(wanted, intervals.at(-1) ?? 0);
}

function powersOfTen([min, max]: ChartAxis["range"], marksMax: number): readonly number[] {
  const first = Math.ceil(Math.log10(min) - ROUNDING);
  const last = Math.floor(Math.log10(max) + ROUNDING);
  const stride = Math.max(1, Math.ceil((last - first + 1) / marksMax));
  const count = Math.floor((last - first) / stride) + 1;
  return Array.from({ length: Math.max(0, count) }, (_, i) => 10 ** (first + i * stride));
}

const DAY_MINUTES = 24 * 60;
const MINUTE_INTERVALS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720];
const DAY_INTERVALS = [1, 2, 5, 10, 20, 50];
// The offset of every zone is a multiple of this.
const GRAIN_MINUTES = 15;

/** Round moments of the reader's own zone within a span, at most `marksMax`: minutes, hours or midnights. */
export function timeMarks(from: number, to: number, marksMax: number): readonly number[] {
  const wanted = (to - from) / MINUTE_MS / marksMax;
  const minutes = MINUTE_INTERVALS.find((interval) => interval >= wanted);
  if (minutes !== undefined) return roundMinutes(from, to, minutes);
  return midnights(from, to, smallestFitting(DAY_INTERVALS, wanted / DAY_MINUTES));
}

function roundMinutes(from: number, to: number, interval: number): readonly number[] {
  const grainMs = Math.min(interval, GRAIN_MINUTES) * MINUTE_MS;
  const first = Math.ceil(from / grainMs);
  const count = Math.floor(to / grainMs) - first + 1;
  return Array.from({ length: count }, (_, i) => (first + i) * grainMs).filter((at) => {
    const date = new Date(at);
    return (date.getHours() * 60 + date.getMinutes()) % interval === 0;
  });
}

// Counted backwards from the last midnight, so that the newest day is always marked. Days have 23 to 25 hours.
function midnights(from: number, to: number, days: number): readonly number[] {
  const marks: number[] = [];
  const day = new Date(to);
  day.setHours(0, 0, 0, 0);
  while (day.getTime() >= from) {
    marks.unshift(day.getTime());
    day.setDate(day.getDate() - Math.ceil(days));
  }
  return marks;
}

/** Whether marks are days, and not times of a day. */
export function areDays(marks: readonly number[]): boolean {
  const [first, second] = marks;
  // The day on which summer time begins has 23 hours.
  return first !== undefined && second !== undefined && second - first > DAY_MS * 0.9;
}

/** The points of the ended steps, and the points of the other steps, which are drawn separately. */
export function splitPoints(steps: ChartSpec["steps"], points: readonly Point[]) {
  const isOpen = (i: number) => steps[i]?.isWhole === false;
  return {
    whole: points.map((point, i) => (isOpen(i) ? null : point)),
    // It begins at the last point that is over, and ends at the first.
    open: points.map((point, i) => (isOpen(i - 1) || isOpen(i) || isOpen(i + 1) ? point : null)),
  };
}

/** A line through the points, interrupted at null. */
export function linePath(points: readonly Point[]): string {
  let isOn = false;
  let path = "";
  for (const point of points) {
    if (point !== null) path += `${isOn ? "L" : "M"}${place(point)}`;
    isOn = point !== null;
  }
  return path;
}

/**
 * A path of no length at each point that no line shows, or at every point where there are few: they become dots when
 * the stroke has round ends.
 */
export function dotPath(points: readonly Point[]): string {
  const known = points.filter((point) => point !== null).length;
  const isSparse = known < points.length / 3;
  const isAlone = (i: number) =>
    (points[i - 1] ?? null) === null && (points[i + 1] ?? null) === null;
  return points
    .map((point, i) => {
      if (point === null || !(isSparse || isAlone(i))) return "";
      return `M${place(point)}h0`;
    })
    .join("");
}

/** A bar: its sides, its top and its base line. */
export interface Bar {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

const BAR_WIDTH_MAX = 40;
// Narrower bars touch each other: gaps of less than a pixel would flicker.
const GAP_FROM_WIDTH = 6;

/** Bars on whole pixels. A small value stays visible, and zero draws nothing. */
export function barPath(bars: readonly (Bar | null)[]): string {
  return bars.map((bar) => (bar === null || bar.top >= bar.bottom ? "" : rectangle(bar))).join("");
}

function rectangle({ left, right, top, bottom }: Bar): string {
  const [from, to] = [Math.round(left), Math.round(right)];
  const gap = right - left >= GAP_FROM_WIDTH ? Math.ceil((right - left) * 0.15) : 0;
  const width = Math.max(1, Math.min(BAR_WIDTH_MAX, to - from - gap));
  const x = Math.round((from + to - width) / 2);
  const height = Math.max(1, Math.round(bottom - top));
  return `M${x} ${Math.round(bottom)}v-${height}h${width}v${height}z`;
}

// In tenths: more digits are invisible, and the browser would have to parse them.
function place(point: NonNullable<Point>): string {
  return point.map((pixels) => Math.round(pixels * 10) / 10).join(" ");
}

/** The content of a chart, before anything is drawn. */
export interface ChartSpec {
  readonly title: string;
  /** The whole chart in a sentence, also for readers who do not see it. */
  readonly summary: string;
  /** Why there is nothing to draw; null when there is something. */
  readonly empty: string | null;
  /** Oldest first; at least one. */
  readonly steps: readonly ChartStep[];
  readonly lines: readonly ChartLine[];
  readonly left: ChartAxis;
  readonly right: ChartAxis | null;
  /** A line across, on the left axis. */
  readonly limit: { readonly value: number; readonly text: string } | null;
}

/** A step of time, in milliseconds since the epoch. */
export interface ChartStep {
  readonly from: number;
  readonly to: number;
  /** False: more may come, so it is drawn separately. */
  readonly isWhole: boolean;
}

/** The colours of charts, by their names in style/token.css. */
export type ChartColour = "chart-blue" | "chart-amber" | "chart-teal" | "chart-violet" | "bad";

export interface ChartLine {
  readonly name: string;
  readonly shape: "line" | "bar";
  readonly colour: ChartColour;
  readonly axis: "left" | "right";
  /** One value for each step, or null. */
  readonly values: readonly (number | null)[];
  readonly text: (value: number) => string;
}

export interface ChartAxis {
  readonly kind: "linear" | "logarithmic";
  readonly range: readonly [min: number, max: number];
  /** The possible distances between two marks; empty for a logarithmic axis, whose marks are powers of ten. */
  readonly intervals: readonly number[];
  readonly text: (value: number) => string;
}

/** The step that the legend shows while none is pointed at: the last complete one, or else the last. */
export function newestStep(steps: readonly ChartStep[]): number {
  const whole = steps.findLastIndex(({ isWhole }) => isWhole);
  return whole === -1 ? steps.length - 1 : whole;
}
