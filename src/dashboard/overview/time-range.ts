import type { QueryOf } from "../../api/inputs.ts";
import { setQuery } from "../shell/route.ts";
import { spanText } from "./span.ts";

/** The time that the charts show: one of a few ranges up to now, or a zoomed span. It is in the URL. */
export interface TimeRange {
  readonly name: RangeName;
  /** In milliseconds since the epoch; null: up to now. */
  readonly zoom: { readonly from: number; readonly to: number } | null;
}

export type RangeName = "1h" | "24h" | "7d" | "30d";

/** The ranges that can be chosen. */
export const RANGES: readonly { readonly value: RangeName; readonly text: string }[] = [
  { value: "1h", text: "1 h" },
  { value: "24h", text: "24 h" },
  { value: "7d", text: "7 d" },
  { value: "30d", text: "30 d" },
];

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const LENGTHS: Readonly<Record<RangeName, number>> = {
  "1h": HOUR_MS,
  "24h": 24 * HOUR_MS,
  "7d": 7 * 24 * HOUR_MS,
  "30d": 30 * 24 * HOUR_MS,
};
// Five steps: fewer show no development.
const ZOOM_MS_MIN = 5 * MINUTE_MS;

/** Reads the range from the URL's query. A query that cannot be read means the last hour. */
export function rangeOf(query: URLSearchParams): TimeRange {
  const name = RANGES.find(({ value }) => value === query.get("range"))?.value ?? "1h";
  const from = Date.parse(query.get("from") ?? "");
  const to = Date.parse(query.get("to") ?? "");
  return { name, zoom: from < to ? { from, to } : null };
}

/** Shows one of the ranges. */
export function chooseRange(name: RangeName): void {
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
  { name, zoom }: TimeRange,
  now: number,
): QueryOf<"GET /v1/stats/series"> {
  const from = new Date(zoom?.from ?? now - LENGTHS[name]).toISOString();
  return { from, to: zoom === null ? undefined : new Date(zoom.to).toISOString() };
}

/** The search for tasks posted in this time. */
export function searchOf({ name, zoom }: TimeRange): string {
  if (zoom === null) return `after:${name}`;
  const { from, to } = zoom;
  return `after:${new Date(from).toISOString()} before:${new Date(to).toISOString()}`;
}

const LAST_TEXTS: Readonly<Record<RangeName, string>> = {
  "1h": "hour",
  "24h": "24 hours",
  "7d": "7 days",
  "30d": "30 days",
};

/** `in the last 24 hours`, `in Nov 20, 19:00–20:00`. */
export function rangeText({ name, zoom }: TimeRange): string {
  return zoom === null ? `in the last ${LAST_TEXTS[name]}` : `in ${spanText(zoom.from, zoom.to)}`;
}
