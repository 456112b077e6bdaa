/** How long something took, so often: durations in milliseconds, 0 where there were none. */
export interface Spread {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
}

const BUCKET_MS = 0.05;
const BUCKETS = 200_000;

/** Durations, counted in buckets of 50 µs up to 10 s; in a quantile what took longer counts as 10 s. */
export class Durations {
  readonly #counts = new Uint32Array(BUCKETS);
  #count = 0;
  #maxMs = 0;

  add(ms: number): void {
    const bucket = Math.min(Math.max(Math.floor(ms / BUCKET_MS), 0), BUCKETS - 1);
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#count++;
    this.#maxMs = Math.max(this.#maxMs, ms);
  }

  /** How many were added. */
  get count(): number {
    return this.#count;
  }

  get spread(): Spread {
    return {
      count: this.#count,
      p50Ms: this.quantile(0.5),
      p99Ms: this.quantile(0.99),
      p999Ms: this.quantile(0.999),
      maxMs: this.#maxMs,
    };
  }

  /** The upper end of the bucket that holds this share of all, in milliseconds; 0 where there are none. */
  quantile(share: number): number {
    let left = Math.ceil(this.#count * share);
    if (left === 0) return 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      left -= this.#counts[bucket] ?? 0;
      if (left <= 0) return (bucket + 1) * BUCKET_MS;
    }
    return BUCKETS * BUCKET_MS;
  }
}

/** Of as many durations as there are, none of them rounded. */
export function spreadOf(durations: readonly number[]): Spread {
  const sorted = durations.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
  return {
    count: sorted.length,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    p999Ms: at(0.999),
    maxMs: at(1),
  };
}

/** The time, in epoch milliseconds and parts of them. */
export function epochMs(): number {
  return performance.timeOrigin + performance.now();
}

export function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** The middle one; of an even number of values the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  const lower = sorted[Math.ceil(middle) - 1] ?? upper;
  return (lower + upper) / 2;
}
