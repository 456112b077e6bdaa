import assert from "node:assert/strict";
import { test } from "node:test";

import { countEvents, type RateWindow } from "../../src/domain/account/quota.ts";

const RULE = { limit: 3, windowMs: 60_000 };

test("a window starts with the first event and allows the limit", () => {
  let window: RateWindow | null = null;
  const seen = [];
  for (const now of [1000, 1000, 30_000, 30_001]) {
    const counted = countEvents(window, { now, rule: RULE });
    ({ window } = counted);
    seen.push([counted.verdict.isAllowed, counted.verdict.remaining, counted.verdict.resetSeconds]);
  }

  assert.deepEqual(seen, [
    [true, 2, 60],
    [true, 1, 60],
    [true, 0, 31],
    [false, 0, 31],
  ]);
  assert.deepEqual(window, { startedAt: 1000, count: 3 });
});

test("refused events do not move the end of a window", () => {
  const full = { startedAt: 0, count: 3 };

  const { window, verdict } = countEvents(full, { now: 59_999, rule: RULE });

  assert.equal(verdict.isAllowed, false);
  assert.equal(verdict.resetSeconds, 1);
  assert.deepEqual(window, full);
});

test("a new window starts at the end of the old one", () => {
  const full = { startedAt: 0, count: 3 };

  const { window, verdict } = countEvents(full, { now: 60_000, rule: RULE });

  assert.deepEqual(window, { startedAt: 60_000, count: 1 });
  assert.equal(verdict.isAllowed, true);
  assert.equal(verdict.remaining, 2);
});

test("a limit of 0 allows everything", () => {
  const at = { now: 0, rule: { limit: 0, windowMs: 60_000 } };

  assert.equal(countEvents({ startedAt: 0, count: 9 }, at).verdict.isAllowed, true);
  assert.equal(countEvents(null, at).verdict.remaining, Infinity);
});
