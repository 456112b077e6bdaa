import { DAY_MS, HOUR_MS } from "../../domain/clock/duration.ts";
import { route, setQuery } from "../shell/route.ts";
import { Segments } from "./control.tsx";

/** A range of time up to now; with `ms` null all time. */
export interface Range {
  readonly value: string;
  readonly text: string;
  /** As in "in the last hour". */
  readonly last: string;
  readonly ms: number | null;
}

export const HOUR = { value: "1h", text: "1 h", last: "hour", ms: HOUR_MS };
export const DAY = { value: "24h", text: "24 h", last: "24 hours", ms: DAY_MS };
export const WEEK = { value: "7d", text: "7 d", last: "7 days", ms: 7 * DAY_MS };
export const MONTH = { value: "30d", text: "30 d", last: "30 days", ms: 30 * DAY_MS };
export const ALL_TIME = { value: "all", text: "All", last: "", ms: null };

/** The range in the URL, or else the standard one. */
export function rangeIn<R extends Range>(ranges: readonly R[], standard: R): R {
  return ranges.find(({ value }) => value === route.value.query.get("range")) ?? standard;
}

/** The beginning of a range as the API takes it. */
export function sinceOf({ ms }: Range): string | undefined {
  return ms === null ? undefined : new Date(Date.now() - ms).toISOString();
}

interface RangeFieldProps {
  readonly ranges: readonly Range[];
  readonly standard: Range;
}

/** The choice of a range, which is in the URL. */
export function RangeField({ ranges, standard }: RangeFieldProps) {
  return (
    <Segments
      label="Time"
      options={ranges}
      value={rangeIn(ranges, standard).value}
      choose={(value) => setQuery({ range: value === standard.value ? null : value, cursor: null })}
    />
  );
}
