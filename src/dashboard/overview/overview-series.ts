import type { Series, SeriesBucket } from "../../api/stats.ts";
import { MINUTE_MS, SECOND_MS } from "../../domain/clock/duration.ts";
import { countOf, countText, durationText, percentText, ROUND_MS } from "../shell/format.ts";
import type { ChartAxis, ChartColour, ChartLine, ChartSpec, ChartStep } from "./plot-scale.ts";

/** Makes the overview's charts from the numbers of GET /v1/stats/series. */

export interface SeriesShown {
  readonly series: Series;
  /** When the numbers were read, by the daemon's clock. */
  readonly readAt: number;
  /** As in "nothing was delivered in the last 1 h". */
  readonly when: string;
}

export function overviewCharts(shown: SeriesShown): readonly ChartSpec[] {
  const steps = shown.series.buckets.map(({ at, is_whole: isWhole }): ChartStep => {
    const from = Date.parse(at);
    return { from, to: from + shown.series.step_ms, isWhole };
  });
  return [success, latency, queue, throughput].map((chart) => ({
    right: null,
    limit: null,
    ...chart(shown),
    steps,
  }));
}

type Drawn = Omit<ChartSpec, "steps" | "right" | "limit"> &
  Partial<Pick<ChartSpec, "right" | "limit">>;

function success({ series: { buckets }, when }: SeriesShown): Drawn {
  const attempts = sum(buckets, (bucket) => bucket.first_attempts);
  const ended = sum(buckets, endedOf);
  const first = shareOf(
    sum(buckets, (bucket) => bucket.first_delivered),
    attempts,
  );
  const delivered = sum(buckets, (bucket) => bucket.delivered);
  const lines = linesOf(buckets, percentText, [
    ["In the end", "chart-teal", (bucket) => shareOf(bucket.delivered, endedOf(bucket))],
    [
      "First attempt",
      "chart-blue",
      (bucket) => shareOf(bucket.first_delivered, bucket.first_attempts),
    ],
  ]);
  return {
    title: "Delivery success",
    summary:
      `${percentText(shareOf(delivered, ended))} delivered in the end ` +
      `(${countText(delivered)} of ${countText(ended)}), ${percentText(first)} at the first attempt.`,
    empty: attempts + ended === 0 ? `Nothing was sent ${when}.` : null,
    lines,
    left: shareAxis(lines),
  };
}

function endedOf({ delivered, given_up: givenUp, refused }: SeriesBucket): number {
  return delivered + givenUp + refused;
}

function shareOf(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}

// Most of the time it is close to 100 %, and readers look for the rest.
function shareAxis(lines: readonly ChartLine[]): ChartAxis {
  const lowest = Math.min(1, ...valuesOf(lines));
  const min = lowest >= 0.9 ? 0.9 : lowest >= 0.5 ? 0.5 : 0;
  return {
    kind: "linear",
    // A line at 100 % is fully visible.
    range: [min, 1 + (1 - min) * 0.03],
    intervals: [0.02, 0.05, 0.1, 0.25, 0.5],
    text: (value) => `${Math.round(value * 100)} %`,
  };
}

function latency({ series: { buckets, limit_ms: limitMs }, when }: SeriesShown): Drawn {
  const attempts = sum(buckets, (bucket) => bucket.attempts);
  const lines = linesOf(buckets, durationText, [
    ["p50", "chart-teal", ({ p50_ms: ms }) => raised(ms)],
    ["p95", "chart-blue", ({ p95_ms: ms }) => raised(ms)],
    ["p99", "chart-violet", ({ p99_ms: ms }) => raised(ms)],
  ]);
  const values = valuesOf(lines);
  const slowest = Math.max(...valuesOf(lines.slice(2)), 0);
  const min = 10 ** Math.floor(Math.log10(Math.min(...values, 100)));
  return {
    title: "Delivery latency",
    summary:
      `${countOf(attempts, "attempt")}; p99 at most ${durationText(slowest)}, ` +
      `with ${durationText(limitMs)} allowed.`,
    empty: values.length === 0 ? `Nothing was sent ${when}.` : null,
    lines,
    left: {
      kind: "logarithmic",
      range: [min, Math.max(limitMs, ...values) * 2],
      intervals: [],
      text: durationText,
    },
    limit: { value: limitMs, text: `limit ${durationText(limitMs)}` },
  };
}

// A logarithmic axis has no zero.
function raised(ms: number | null): number | null {
  return ms === null ? null : Math.max(1, ms);
}

function queue({ series: { buckets }, when }: SeriesShown): Drawn {
  const most = Math.max(...buckets.map(({ queued }) => queued ?? 0), 0);
  const oldest = Math.max(...buckets.map(({ oldest_ms: oldestMs }) => oldestMs ?? 0), 0);
  const known = buckets.filter(({ queued }) => queued !== null);
  const nothing = known.length === 0 && buckets.length > 0 ? "No daemon ran" : "Nothing waited";
  const waiting = linesOf(buckets, countText, [
    ["Most waiting", "chart-blue", ({ queued }) => queued],
  ]);
  const ages = linesOf(buckets, ageText, [
    ["Age of the oldest", "chart-amber", ({ oldest_ms: oldestMs }) => oldestMs],
  ]);
  return {
    title: "Queue",
    summary: `At most ${countOf(most, "task")} waited at a time, the oldest of them for ${durationText(oldest)}.`,
    empty: most === 0 ? `${nothing} ${when}.` : null,
    lines: [
      ...waiting.map((line): ChartLine => ({ ...line, shape: "bar" })),
      ...ages.map((line): ChartLine => ({ ...line, axis: "right" })),
    ],
    left: countAxis(most),
    right: durationAxis(oldest),
  };
}

function ageText(ms: number): string {
  return ms === 0 ? "0 s" : durationText(ms);
}

function throughput({ series, readAt, when }: SeriesShown): Drawn {
  const { buckets } = series;
  const rows = [
    ["Posted", "chart-blue", ({ posted }) => posted],
    ["Completed", "chart-teal", ({ completed }) => completed],
    ["Failed", "bad", ({ failed }) => failed],
    ["Delivered", "chart-violet", ({ delivered }) => delivered],
  ] as const satisfies readonly LineRow[];
  const lines = linesOf(
    buckets,
    rateText,
    rows.map(([name, colour, valueOf]): LineRow => [
      name,
      colour,
      (bucket) => valueOf(bucket) / minutesOf(bucket, series, readAt),
    ]),
  );
  const most = Math.max(...valuesOf(lines), 0);
  const totals = rows.map(
    ([name, , valueOf]) => `${countText(sum(buckets, valueOf))} ${name.toLowerCase()}`,
  );
  return {
    title: "Throughput per minute",
    summary: `In all ${totals.join(", ")}.`,
    empty: most === 0 ? `Nothing was posted, run or delivered ${when}.` : null,
    lines,
    left: { ...countAxis(most), text: rateText },
  };
}

// For the current step only the elapsed part counts, because its first seconds would show any rate.
function minutesOf(
  { at, is_whole: isWhole }: SeriesBucket,
  series: Series,
  readAt: number,
): number {
  const { step_ms: stepMs } = series;
  if (isWhole) return stepMs / MINUTE_MS;
  const passedMs = readAt - Date.parse(at);
  return Math.min(stepMs, Math.max(passedMs, stepMs / 4)) / MINUTE_MS;
}

/** `0.05`, `1.5`, `1,234`. */
function rateText(rate: number): string {
  if (rate >= 10 || Number.isInteger(rate)) return countText(rate);
  return rate >= 1 ? rate.toFixed(1) : String(Number(rate.toPrecision(1)));
}

type LineRow = readonly [
  name: string,
  colour: ChartColour,
  valueOf: (bucket: SeriesBucket) => number | null,
];

function linesOf(
  buckets: readonly SeriesBucket[],
  text: (value: number) => string,
  rows: readonly LineRow[],
): readonly ChartLine[] {
  return rows.map(([name, colour, valueOf]) => {
    return { name, colour, shape: "line", axis: "left", values: buckets.map(valueOf), text };
  });
}

function valuesOf(lines: readonly ChartLine[]): readonly number[] {
  return lines.flatMap(({ values }) => values.filter((value) => value !== null));
}

function sum(buckets: readonly SeriesBucket[], valueOf: (bucket: SeriesBucket) => number): number {
  return buckets.reduce((total, bucket) => total + valueOf(bucket), 0);
}

const ROOM = 1.1;
const HALF_STEPS = [1, 2, 5];
const COUNT_INTERVALS = Array.from({ length: 30 }, (_, i) => {
  return (HALF_STEPS[i % 3] ?? 1) * 10 ** Math.floor(i / 3);
});

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function countAxis(most: number): ChartAxis {
  return {
    kind: "linear",
    // The axis of small numbers has whole numbers.
    range: [0, Math.max(most * ROOM, 2)],
    intervals: COUNT_INTERVALS,
    text: (value) => compact.format(value),
  };
}

function durationAxis(mostMs: number): ChartAxis {
  return {
    kind: "linear",
    range: [0, Math.max(mostMs * ROOM, SECOND_MS)],
    intervals: ROUND_MS,
    text: ageText,
  };
}
