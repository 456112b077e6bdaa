import { HOUR_MS, MINUTE_MS } from "../clock/duration.ts";

/** The counts that are added up when steps of time are joined. A first attempt counts when it has ended. */
const SUMMED = [
  ...(["posted", "completed", "failed", "cancelled"] as const),
  ...(["firstAttempts", "firstDelivered", "delivered", "givenUp", "refused"] as const),
] as const;

/** The counts of what was seen waiting have no sum: the highest of several steps is taken. */
const HIGHEST = ["queued", "oldestMs"] as const;

export type SeriesCounts = Readonly<Record<(typeof SUMMED | typeof HIGHEST)[number], number>>;

/** The counts of a step of time that begins `at`. */
export interface SeriesStep extends SeriesCounts {
  readonly at: number;
}

export interface SeriesDuration {
  readonly at: number;
  readonly bucket: number;
  readonly count: number;
}

/** A part of a series. Percentiles are in milliseconds, and null when no attempt ended. */
export interface SeriesBucket extends SeriesCounts {
  readonly at: number;
  /** False while its time is not over. */
  readonly isWhole: boolean;
  /** False if no daemon ran: what waited then is not known. */
  readonly isServed: boolean;
  readonly attempts: number;
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  readonly p99Ms: number | null;
}

/** A range of time in equal steps: from the beginning of the first to the end of the last. */
export interface SeriesRange {
  readonly from: number;
  readonly to: number;
  readonly stepMs: number;
}

/** How long minutes are kept apart; older traffic is kept by the hour. */
export const MINUTES_KEPT_MS = 25 * HOUR_MS;
export const SERIES_BUCKETS_MAX = 180;

/** The steps of a series, each a multiple of the one before. */
export const SERIES_STEPS_MS: readonly number[] = [
  ...[MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS],
  ...[HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS],
];

/** The smallest step that makes few enough buckets and is still kept. Null if there are too many, or `to` <= `from`. */
export function seriesRange(
  asked: Omit<SeriesRange, "stepMs"> & { readonly now: number },
): SeriesRange | null {
  const { from, to, now } = asked;
  if (!(to > from)) return null;
  const leastMs = from < now - MINUTES_KEPT_MS ? HOUR_MS : 0;
  for (const stepMs of SERIES_STEPS_MS) {
    const first = Math.floor(from / stepMs);
    const end = Math.ceil(to / stepMs);
    if (stepMs < leastMs || end - first > SERIES_BUCKETS_MAX) continue;
    return { from: first * stepMs, to: end * stepMs, stepMs };
  }
  return null;
}

/** A bucket for every step of the range, oldest first. Longer steps count in the bucket in which they begin. */
export function toSeries(
  range: SeriesRange,
  happened: {
    readonly steps: readonly SeriesStep[];
    readonly durations: readonly SeriesDuration[];
    /** Steps in which a daemon ran, besides `steps`. */
    readonly served: readonly Pick<SeriesStep, "at">[];
    readonly now: number;
  },
): readonly SeriesBucket[] {
  const { steps, durations, served, now } = happened;
  const { from, to, stepMs } = range;
  const open = Array.from({ length: (to - from) / stepMs }, newBucket);
  const bucketAt = (at: number): OpenBucket | undefined => open[Math.floor((at - from) / stepMs)];
  for (const step of steps) addStep(bucketAt(step.at), step);
  for (const { at } of [...steps, ...served, { at: now }]) {
    const bucket = bucketAt(at);
    if (bucket !== undefined) bucket.isServed = true;
  }
  for (const duration of durations) addAttempts(bucketAt(duration.at), duration);
  return open.map((bucket, i) => {
    const at = from + i * stepMs;
    return closeBucket(bucket, { at, isWhole: at + stepMs <= now });
  });
}

export function sumSteps(steps: readonly SeriesStep[]): SeriesCounts {
  const bucket = newBucket();
  for (const step of steps) addStep(bucket, step);
  return bucket.counts;
}

/** The share of ended deliveries that were delivered, 0 to 1; null when none ended. */
export function successShare(
  counts: Pick<SeriesCounts, "delivered" | "givenUp" | "refused">,
): number | null {
  const { delivered, givenUp, refused } = counts;
  const ended = delivered + givenUp + refused;
  return ended === 0 ? null : delivered / ended;
}

interface OpenBucket {
  isServed: boolean;
  readonly counts: Record<keyof SeriesCounts, number>;
  readonly durations: Map<number, number>;
}

function newBucket(): OpenBucket {
  const counts = Object.fromEntries([...SUMMED, ...HIGHEST].map((name) => [name, 0]));
  // Each name of the type is in one of the two lists.
  return { isServed: false, counts: counts as OpenBucket["counts"], durations: new Map() };
}

function addStep(bucket: OpenBucket | undefined, step: SeriesStep): void {
  if (bucket === undefined) return;
  const { counts } = bucket;
  for (const name of SUMMED) counts[name] += step[name];
  for (const name of HIGHEST) counts[name] = Math.max(counts[name], step[name]);
}

function addAttempts(bucket: OpenBucket | undefined, { bucket: n, count }: SeriesDuration): void {
  if (bucket === undefined) return;
  bucket.durations.set(n, (bucket.durations.get(n) ?? 0) + count);
}

function closeBucket(
  { isServed, counts, durations }: OpenBucket,
  which: Pick<SeriesBucket, "at" | "isWhole">,
): SeriesBucket {
  return {
    ...which,
    isServed,
    ...counts,
    attempts: [...durations.values()].reduce((sum, count) => sum + count, 0),
    p50Ms: percentile(durations, 0.5),
    p95Ms: percentile(durations, 0.95),
    p99Ms: percentile(durations, 0.99),
  };
}

/**
 * Durations, counted in buckets that grow by a factor of √2: a percentile read from them is wrong by that factor at
 * most, 41 %, from 1 ms to 64 s. Bucket 0 holds up to 1 ms, bucket n up to 2^(n/2) ms, the last one everything longer.
 */

/** The highest bucket: from 64 s on. */
export const BUCKET_MAX = 33;

// The last bucket has none.
const UPPER_BOUNDS = Array.from({ length: BUCKET_MAX }, (_, bucket) => upperBound(bucket));

export function bucketOf(durationMs: number): number {
  // It compares, because a logarithm may miss a bound by its last digit; and NaN falls into the first bucket.
  const bucket = UPPER_BOUNDS.findIndex((bound) => !(durationMs > bound));
  return bucket === -1 ? BUCKET_MAX : bucket;
}

/** The number of durations in each bucket, by bucket; buckets above the last entry are empty. */
export type Durations = number[];

export function addDuration(durations: Durations, bucket: number): void {
  // Without holes, which would become null in JSON.
  while (durations.length <= bucket) durations.push(0);
  durations[bucket] = (durations[bucket] ?? 0) + 1;
}

export function addDurations(durations: Durations, others: readonly number[]): void {
  let bucket = 0;
  for (const count of others) {
    durations[bucket] = (durations[bucket] ?? 0) + count;
    bucket++;
  }
}

export type BucketCounts = ReadonlyMap<number, number>;

/** The milliseconds that a share of all durations does not exceed (0.95 is p95), interpolated; null without any. */
export function percentile(counts: BucketCounts, share: number): number | null {
  const buckets = [...counts].filter(([, count]) => count > 0).toSorted(([a], [b]) => a - b);
  const total = buckets.reduce((sum, [, count]) => sum + count, 0);
  if (total === 0) return null;
  const rank = Math.max(1, share * total);
  let below = 0;
  for (const [bucket, count] of buckets) {
    if (below + count >= rank) return within(bucket, (rank - below) / count);
    below += count;
  }
  return upperBound(BUCKET_MAX);
}

function within(bucket: number, share: number): number {
  const from = bucket === 0 ? 0 : upperBound(bucket - 1);
  return from + (upperBound(bucket) - from) * share;
}

function upperBound(bucket: number): number {
  return 2 ** (bucket / 2);
}

/** The earlier of two times; null means no time. */
export function earlier(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}

/** How long something has waited; 0 when nothing waits, and when the clock was set back. */
export function waitedMs(since: number | null, now: number): number {
  return since === null ? 0 : Math.max(0, now - since);
}

/**
 * Measures how long queued tasks have waited, in the time for which the queue was served. A queue checkpoint is the
 * newest task at a moment; two checkpoints are about an hour of service apart. A task has waited since a mark or longer
 * when it was posted by then and did not come into the queue later.
 */

/** True if a new queue checkpoint is due: the newest one has been served for that time, or none exists. */
export function isMarkDue(
  newest: { readonly servedMs: number } | undefined,
  { servedMs, everyMs }: { readonly servedMs: number; readonly everyMs: number },
): boolean {
  return newest === undefined || newest.servedMs + servedMs >= everyMs;
}

/** True for a task, posted before a mark, in the queue since. A null `queuedMark` means since it was posted. */
export function waitsSince(mark: number, queuedMark: number | null): boolean {
  return queuedMark === null || queuedMark < mark;
}
