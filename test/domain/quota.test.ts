import assert from "node:assert/strict";
import { test } from "node:test";

import {
  type PostQuota,
  type RateWindow,
  countEvents,
  excessOf,
  hasRoomBeside,
  limitsOf,
  openTasksOf,
} from "../../src/domain/account/quota.ts";

const NO_LIMITS: PostQuota = { bytes: 0, openTasks: 0, shareBytes: 0 };
const USED = { bytes: 90, openTasks: 9 };

const POSTS: readonly (readonly [string, Partial<PostQuota>, keyof PostQuota | null])[] = [
  ["no limits", {}, null],
  ["exactly its bytes", { bytes: 100 }, null],
  ["beyond its bytes", { bytes: 99 }, "bytes"],
  ["beyond its share of the disk space", { shareBytes: 99 }, "shareBytes"],
  ["exactly its open tasks", { openTasks: 11 }, null],
  ["beyond its open tasks", { openTasks: 10 }, "openTasks"],
  ["beyond all limits", { bytes: 1, shareBytes: 1, openTasks: 1 }, "bytes"],
];

test("a post is refused by the first limit that it exceeds", () => {
  for (const [when, limits, over] of POSTS) {
    const quota = { ...NO_LIMITS, ...limits };

    const excess = excessOf({ bytes: 10, openTasks: 2 }, { used: USED, quota });

    assert.equal(excess?.quota ?? null, over, when);
    if (over !== null) assert.equal(excess?.limit, quota[over]);
  }
});

test("a post is accepted if it adds nothing to an exceeded limit", () => {
  const quota = { ...NO_LIMITS, openTasks: 5 };

  assert.equal(excessOf({ bytes: 10, openTasks: 0 }, { used: USED, quota }), null);
});

test("one more is allowed until the maximum", () => {
  assert(hasRoomBeside(0, 20));
  assert(hasRoomBeside(19, 20));
  assert(!hasRoomBeside(20, 20));
  assert(!hasRoomBeside(21, 20));
});

test("an account's own limits replace the configured limits, and 0 disables a limit", () => {
  const standard = { bytes: 1, openTasks: 2, requestsPerMinute: 3, tasksPerMinute: 4 };
  const own = { bytes: 0, openTasks: null, requestsPerMinute: 9, tasksPerMinute: null };

  assert.deepEqual(limitsOf(own, standard), { ...standard, bytes: 0, requestsPerMinute: 9 });
});

test("queued, delayed and running tasks are open", () => {
  assert.equal(openTasksOf({ queued: 1, delayed: 10, running: 100 }), 111);
});

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
