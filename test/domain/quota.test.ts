import assert from "node:assert/strict";
import { test } from "node:test";

import {
  excessOf,
  hasRoomBeside,
  limitsOf,
  openTasksOf,
  type PostQuota,
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

test("an account's own limits replace the configured limits, and 0 is no limit", () => {
  const standard = { bytes: 1, openTasks: 2, requestsPerMinute: 3, tasksPerMinute: 4 };
  const own = { bytes: 0, openTasks: null, requestsPerMinute: 9, tasksPerMinute: null };

  assert.deepEqual(limitsOf(own, standard), { ...standard, bytes: 0, requestsPerMinute: 9 });
});

test("queued, delayed and running tasks are open", () => {
  assert.equal(openTasksOf({ queued: 1, delayed: 10, running: 100 }), 111);
});
