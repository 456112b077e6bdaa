/**
 * Durations, counted in buckets that grow by a factor of √2: a percentile read from them is wrong by that factor at
 * most, 41 %, from 1 ms to 64 s. Bucket 0 holds up to 1 ms, bucket n up to 2^(n/2) ms, the last one everything longer.
 */

/** The highest bucket: from 64 s on. */
export const BUCKET_MAX = 33;

// The last bucket has none.
const UPPER_BOUNDS = Array.from({ length: BUCKET_MAX }, (_, bucket) => upperBound(bucket));

/** The bucket of a duration. */
export function bucketOf(durationMs: number): number {
  // It compares, because a logarithm may miss a bound by its last digit; and NaN falls into the first bucket.
  const bucket = UPPER_BOUNDS.findIndex((bound) => !(durationMs > bound));
  return bucket === -1 ? BUCKET_MAX : bucket;
}

/** The number of durations in each bucket, by bucket; above the last entry there are none. */
export type Durations = number[];

/** Adds to a bucket. */
export function addDuration(durations: Durations, bucket: number): void {
  // Without holes, which would become null in JSON.
  while (durations.length <= bucket) durations.push(0);
  durations[bucket] = (durations[bucket] ?? 0) + 1;
}

/** Adds all durations of another histogram. */
export function addDurations(durations: Durations, others: readonly number[]): void {
  let bucket = 0;
  for (const count of others) {
    durations[bucket] = (durations[bucket] ?? 0) + count;
    bucket++;
  }
}

/** The number of durations in each bucket. */
export type BucketCounts = ReadonlyMap<number, number>;

/**
 * The duration in milliseconds that a share of all durations does not exceed (0.95 is p95), interpolated within its
 * bucket; null when there are none.
 */
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
