import assert from "node:assert/strict";
import { test } from "node:test";

import { earlier, isMarkDue, waitedMs, waitsSince } from "../../src/domain/stats/time-series.ts";

test("the earlier of two times is returned, and a time is earlier than null", () => {
  assert.equal(earlier(1, 2), 1);
  assert.equal(earlier(2, 1), 1);
  assert.equal(earlier(null, 2), 2);
  assert.equal(earlier(2, null), 2);
  assert.equal(earlier(null, null), null);
});

test("a wait is never negative", () => {
  assert.equal(waitedMs(10, 25), 15);
  assert.equal(waitedMs(25, 10), 0);
  assert.equal(waitedMs(null, 10), 0);
});

test("a queue checkpoint is due without one, and after its interval of service", () => {
  assert(isMarkDue(undefined, { servedMs: 0, everyMs: 60 }));
  assert(!isMarkDue({ servedMs: 50 }, { servedMs: 9, everyMs: 60 }));
  assert(isMarkDue({ servedMs: 50 }, { servedMs: 10, everyMs: 60 }));
});

test("a task waits since a queue checkpoint if it was queued before it", () => {
  assert(waitsSince(5, null));
  assert(waitsSince(5, 4));
  assert(!waitsSince(5, 5));
  assert(!waitsSince(5, 6));
});
