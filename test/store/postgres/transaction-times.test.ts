import assert from "node:assert/strict";
import { test } from "node:test";

import { TransactionTimes } from "../../../src/store/postgres/database-health.ts";

function looked(looks: readonly (readonly [atMs: number, next: number])[], nowMs: number) {
  let now = 0;
  const times = new TransactionTimes(() => now);
  for (const [at, next] of looks) {
    now = at;
    times.note(next);
  }
  now = nowMs;
  return times;
}

test("a transaction is at least as old as the first poll that found it", () => {
  const times = looked(
    [
      [0, 100],
      [60_000, 200],
      [120_000, 300],
    ],
    121_000,
  );
  assert.equal(times.sinceMs(99), 121_000);
  assert.equal(times.sinceMs(100), 61_000);
  assert.equal(times.sinceMs(199), 61_000);
});

test("the age of a transaction found by the last poll only is unknown", () => {
  const times = looked(
    [
      [0, 100],
      [60_000, 200],
    ],
    60_000,
  );
  assert.equal(times.sinceMs(100), null);
  assert.equal(times.sinceMs(200), null);
  assert.equal(looked([[0, 100]], 500).sinceMs(1), null);
});

test("several polls in a second count as one, and polls of another server are dropped", () => {
  const often = looked(
    [
      [0, 100],
      [999, 150],
      [1000, 200],
      [2000, 300],
    ],
    2000,
  );
  assert.equal(often.sinceMs(120), 1000);
  const other = looked(
    [
      [0, 100],
      [1000, 200],
      [2000, 50],
      [3000, 60],
    ],
    3000,
  );
  assert.equal(other.sinceMs(40), 1000);
});
