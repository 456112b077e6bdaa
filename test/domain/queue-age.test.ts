import assert from "node:assert/strict";
import { test } from "node:test";

import { earlier, isMarkDue, waitedMs, waitsSince } from "../../src/domain/stats/time-series.ts";

test("takes the earlier of two times, and any time for earlier than none", () => {
  assert.equal(earlier(1, 2), 1);
  assert.equal(earlier(2, 1), 1);
  assert.equal(earlier(null, 2), 2);
  assert.equal(earlier(2, null), 2);
  assert.equal(earlier(null, null), null);
});

test("nothing has waited for less than no time, whatever the clock is set to", () => {
  assert.equal(waitedMs(10, 25), 15);
  assert.equal(waitedMs(25, 10), 0);
  assert.equal(waitedMs(null, 10), 0);
});

test("a mark is due where there is none, and once the newest has been served for so long", () => {
  assert(isMarkDue(undefined, { servedMs: 0, everyMs: 60 }));
  assert(!isMarkDue({ servedMs: 50 }, { servedMs: 9, everyMs: 60 }));
  assert(isMarkDue({ servedMs: 50 }, { servedMs: 10, everyMs: 60 }));
});

test("a task waits since a mark that it was posted before, unless it came into the queue later", () => {
  assert(waitsSince(5, null));
  assert(waitsSince(5, 4));
  assert(!waitsSince(5, 5));
  assert(!waitsSince(5, 6));
});
