import assert from "node:assert/strict";
import { test } from "node:test";

import { Durations, median } from "../../scripts/kit/durations.ts";

test("a quantile is the upper end of the bucket that holds this share of all durations", () => {
  const durations = new Durations();
  for (let ms = 1; ms <= 100; ms++) durations.add(ms);

  assert.equal(durations.quantile(0.5).toFixed(2), "50.05");
  assert.equal(durations.quantile(0.99).toFixed(2), "99.05");
  assert.equal(durations.count, 100);
});

test("durations beyond the last bucket count as its end", () => {
  const durations = new Durations();
  durations.add(60_000);

  assert.equal(durations.quantile(0.5), 10_000);
});

test("nothing recorded has quantile 0", () => {
  assert.equal(new Durations().quantile(0.99), 0);
});

test("the median is the middle value, or the mean of the middle two", () => {
  assert.equal(median([9, 1, 5]), 5);
  assert.equal(median([4, 1, 2, 9]), 3);
});
