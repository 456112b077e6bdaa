import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { BUCKET_MAX, bucketOf, percentile } from "../../src/domain/stats/time-series.ts";

function counted(durations: readonly number[]): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  for (const duration of durations) {
    const bucket = bucketOf(duration);
    counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
  }
  return counts;
}

function exactPercentile(durations: readonly number[], share: number): number {
  const sorted = durations.toSorted((a, b) => a - b);
  return sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1] ?? 0;
}

test("a percentile is exact within a factor of √2", () => {
  const durations = fc.array(fc.double({ min: 1, max: 64_000, noNaN: true }), {
    minLength: 1,
    maxLength: 200,
  });
  fc.assert(
    fc.property(durations, fc.constantFrom(0.5, 0.95, 0.99), (given, share) => {
      const read = percentile(counted(given), share) ?? 0;
      const ratio = read / exactPercentile(given, share);
      assert.ok(ratio <= Math.SQRT2 + 1e-9 && ratio >= Math.SQRT1_2 - 1e-9, String(ratio));
    }),
  );
});

test("a bucket contains durations up to its bound, inclusive", () => {
  for (let bucket = 0; bucket < BUCKET_MAX; bucket++) {
    const bound = 2 ** (bucket / 2);
    assert.equal(bucketOf(bound), bucket);
    assert.equal(bucketOf(bound * (1 + Number.EPSILON)), bucket + 1);
  }
});

test("an invalid duration is in the first bucket, and an infinite one in the last", () => {
  for (const nothing of [0, -1, Number.NaN, Number.NEGATIVE_INFINITY]) {
    assert.equal(bucketOf(nothing), 0);
  }
  assert.equal(bucketOf(Number.POSITIVE_INFINITY), BUCKET_MAX);
});

test("a percentile without durations is null", () => {
  assert.equal(percentile(new Map(), 0.5), null);
  assert.equal(percentile(new Map([[3, 0]]), 0.5), null);
});
