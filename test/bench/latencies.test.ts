import assert from "node:assert/strict";
import { test } from "node:test";

import { Latencies } from "../../scripts/kit/durations.ts";
import { median } from "../../scripts/median.ts";

test("a quantile is the upper end of the bucket that holds this share of all durations", () => {
  const latencies = new Latencies();
  for (let ms = 1; ms <= 100; ms++) latencies.record(ms);

  assert.equal(latencies.quantile(0.5).toFixed(2), "50.05");
  assert.equal(latencies.quantile(0.99).toFixed(2), "99.05");
  assert.equal(latencies.count, 100);
});

test("durations beyond the last bucket count as its end", () => {
  const latencies = new Latencies();
  latencies.record(60_000);

  assert.equal(latencies.quantile(0.5), 10_000);
});

test("nothing recorded has quantile 0", () => {
  assert.equal(new Latencies().quantile(0.99), 0);
});

test("the median is the middle value, or the mean of the middle two", () => {
  assert.equal(median([9, 1, 5]), 5);
  assert.equal(median([4, 1, 2, 9]), 3);
});
