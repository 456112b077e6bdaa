import type { QueryOf } from "../../api/operations.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { now } from "../shell/clock.ts";
import { setQuery } from "../shell/route.ts";

/** The time that the charts show: one of a few ranges up to now, or a zoomed span. It is in the URL. */
export interface TimeRange {
  readonly range: Range;
  /** In milliseconds since the epoch; null: up to now. */
  readonly zoom: { readonly from: number; readonly to: number } | null;
}

/** The ranges that can be chosen. */
export const RANGES = [
  { value: "1h", text: "1 h", last: "hour", ms: HOUR_MS },
  { value: "24h", text: "24 h", last: "24 hours", ms: DAY_MS },
  { value: "7d", text: "7 d", last: "7 days", ms: 7 * DAY_MS },
  { value: "30d", text: "30 d", last: "30 days", ms: 30 * DAY_MS },
] as const;

type Range = (typeof RANGES)[number];

// Five steps: fewer show no development.
const ZOOM_MS_MIN = 5 * MINUTE_MS;

/** Reads the range from the URL's query. A query that cannot be read means the last hour. */
export function rangeOf(query: URLSearchParams): TimeRange {
  const range = RANGES.find(({ value }) => value === query.get("range")) ?? RANGES[0];
  const from = Date.parse(query.get("from") ?? "");
  const to = Date.parse(query.get("to") ?? "");
  return { range, zoom: from < to ? { from, to } : null };
}

/** Shows one of the ranges. */
export function chooseRange(name: Range["value"]): void {
  setQuery({ range: name === "1h" ? null : name, from: null, to: null });
}

/** Zooms into a part of the shown time, in whole minutes. */
export function zoomTo(from: number, to: number): void {
  const middle = (from + to) / 2;
  const half = Math.max(to - from, ZOOM_MS_MIN) / 2;
  const toMinute = (at: number) => new Date(Math.round(at / MINUTE_MS) * MINUTE_MS).toISOString();
  setQuery({ from: toMinute(middle - half), to: toMinute(middle + half) });
}

/** Goes back to the range that was zoomed into. */
export function resetZoom(): void {
  setQuery({ from: null, to: null });
}

/** The query of GET /v1/stats/series. */
export function seriesQuery(
  { range, zoom }: TimeRange,
  now: number,
): QueryOf<"GET /v1/stats/series"> {
  const from = new Date(zoom?.from ?? now - range.ms).toISOString();
  return { from, to: zoom === null ? undefined : new Date(zoom.to).toISOString() };
}

/** The search for tasks posted in this time. */
export function searchOf({ range, zoom }: TimeRange): string {
  if (zoom === null) return `after:${range.value}`;
  const { from, to } = zoom;
  return `after:${new Date(from).toISOString()} before:${new Date(to).toISOString()}`;
}

/** `in the last 24 hours`, `in Nov 20, 19:00–20:00`. */
export function rangeText({ range, zoom }: TimeRange): string {
  return zoom === null ? `in the last ${range.last}` : `in ${spanText(zoom.from, zoom.to)}`;
}

const clockTimes = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
const days = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

/** `19:05`. */
export function clockText(at: number): string {
  return clockTimes.format(at);
}

/** `Nov 21`, in the reader's format. */
export function dayText(at: number): string {
  return days.format(at);
}

/** A span of time, as short as it can be without ambiguity: `19:05–19:06`, `Nov 20, 19:00–20:00`, `Nov 19–Nov 21`. */
export function spanText(from: number, to: number): string {
  const first = dayText(from);
  const last = dayText(to - 1);
  if (to - from >= DAY_MS && isMidnight(from) && isMidnight(to)) {
    return first === last ? first : `${first}–${last}`;
  }
  const start = first === dayText(now.peek()) ? clockText(from) : `${first}, ${clockText(from)}`;
  return `${start}–${first === last ? "" : `${dayText(to)}, `}${clockText(to)}`;
}

function isMidnight(at: number): boolean {
  return clockText(at) === "00:00";
}
