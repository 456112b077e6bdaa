const BUCKET_MS = 0.05;
const BUCKETS = 200_000;

/** Durations, counted in buckets of 50 µs up to 10 s; what took longer counts as 10 s. */
export class Latencies {
  readonly #counts = new Uint32Array(BUCKETS);
  #count = 0;

  record(ms: number): void {
    const bucket = Math.min(Math.max(Math.floor(ms / BUCKET_MS), 0), BUCKETS - 1);
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#count++;
  }

  /** How many were recorded. */
  get count(): number {
    return this.#count;
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
