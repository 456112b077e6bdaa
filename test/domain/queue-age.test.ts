import assert from "node:assert/strict";
import { test } from "node:test";

import {
  type QueuedTimes,
  earlier,
  isMarkDue,
  oldestSince,
  waitedMs,
  waitsSince,
} from "../../src/domain/stats/time-series.ts";

function queued(createdAt: number, startAt: number | null = null): QueuedTimes {
  return { createdAt, startAt };
}

const OLDEST: readonly (readonly [string, readonly QueuedTimes[], number | null])[] = [
  ["none waits", [], null],
  ["one waits", [queued(5)], 5],
  ["the first was made first", [queued(5), queued(7)], 5],
  ["the first was to start later than the second was made", [queued(5, 9), queued(7)], 7],
  ["the first was to start later, but before the second was made", [queued(5, 6), queued(7)], 6],
  ["all were to start later", [queued(5, 30), queued(6, 20), queued(7, 40)], 20],
];

for (const [when, tasks, since] of OLDEST) {
  test(`finds since when the task waits that has waited longest where ${when}`, () => {
    assert.equal(oldestSince(tasks), since);
  });
}

test("reads no task that was made after the oldest began to wait, and a hundred at most", () => {
  let read = 0;
  function* endless(startAt: number | null): Iterable<QueuedTimes> {
    for (let at = 0; ; at++) {
      read++;
      yield queued(at, startAt);
    }
  }
  assert.equal(oldestSince(endless(null)), 0);
  assert.equal(read, 2);

  read = 0;
  assert.equal(oldestSince(endless(1_000_000)), 1_000_000);
  assert.equal(read, 101);
});

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
