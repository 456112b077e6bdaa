import type { QueryOf } from "../../api/operations.ts";
import { DAY_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { DAY, HOUR, MONTH, WEEK, rangeIn } from "../part/range.tsx";
import { now } from "../shell/clock.ts";
import { setQuery } from "../shell/route.ts";

/** The time that the charts show: one of a few ranges up to now, or a zoomed span. It is in the URL. */
export interface TimeRange {
  readonly range: typeof HOUR;
  /** In milliseconds since the epoch; null: up to now. */
  readonly zoom: { readonly from: number; readonly to: number } | null;
}

export const RANGES = [HOUR, DAY, WEEK, MONTH];

// Five steps: fewer show no development.
const ZOOM_MS_MIN = 5 * MINUTE_MS;

/** Reads the range from the URL's query. A query that cannot be read means the last hour. */
export function rangeOf(query: URLSearchParams): TimeRange {
  const from = Date.parse(query.get("from") ?? "");
  const to = Date.parse(query.get("to") ?? "");
  return { range: rangeIn(RANGES, HOUR), zoom: from < to ? { from, to } : null };
}

export function chooseRange(name: string): void {
  setQuery({ range: name === HOUR.value ? null : name, from: null, to: null });
}

/** Zooms into a part of the shown time, in whole minutes. */
export function zoomTo(from: number, to: number): void {
  const middle = (from + to) / 2;
  const half = Math.max(to - from, ZOOM_MS_MIN) / 2;
  const toMinute = (at: number) => new Date(Math.round(at / MINUTE_MS) * MINUTE_MS).toISOString();
  setQuery({ from: toMinute(middle - half), to: toMinute(middle + half) });
}

export function resetZoom(): void {
  setQuery({ from: null, to: null });
}

export function seriesQuery(
  { range, zoom }: TimeRange,
  now: number,
): QueryOf<"GET /v1/stats/series"> {
  const from = new Date(zoom?.from ?? now - range.ms).toISOString();
  return { from, to: zoom === null ? undefined : new Date(zoom.to).toISOString() };
}

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
