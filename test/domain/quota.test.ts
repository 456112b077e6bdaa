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
  ["there are no limits", {}, null],
  ["it brings the account to its bytes exactly", { bytes: 100 }, null],
  ["it brings the account beyond its bytes", { bytes: 99 }, "bytes"],
  ["it brings the account beyond its share of the room", { shareBytes: 99 }, "shareBytes"],
  ["it brings the account to its open tasks exactly", { openTasks: 11 }, null],
  ["it brings the account beyond its open tasks", { openTasks: 10 }, "openTasks"],
  ["it is beyond all of them", { bytes: 1, shareBytes: 1, openTasks: 1 }, "bytes"],
];

for (const [when, limits, over] of POSTS) {
  test(`a post is ${over === null ? "taken" : "too much"} where ${when}`, () => {
    const quota = { ...NO_LIMITS, ...limits };

    const excess = excessOf({ bytes: 10, openTasks: 2 }, { used: USED, quota });

    assert.equal(excess?.quota ?? null, over);
    if (over !== null) assert.equal(excess?.limit, quota[over]);
  });
}

test("a post that adds nothing of what is used up is taken, however full the account is", () => {
  const quota = { ...NO_LIMITS, openTasks: 5 };

  assert.equal(excessOf({ bytes: 10, openTasks: 0 }, { used: USED, quota }), null);
});

test("there is room for one more until there are as many as may be", () => {
  assert(hasRoomBeside(0, 20));
  assert(hasRoomBeside(19, 20));
  assert(!hasRoomBeside(20, 20));
  assert(!hasRoomBeside(21, 20));
});

test("an account's own limits count before the configuration's, 0 as none", () => {
  const standard = { bytes: 1, openTasks: 2, requestsPerMinute: 3, tasksPerMinute: 4 };
  const own = { bytes: 0, openTasks: null, requestsPerMinute: 9, tasksPerMinute: null };

  assert.deepEqual(limitsOf(own, standard), { ...standard, bytes: 0, requestsPerMinute: 9 });
});

test("tasks that wait or run are open, also those that may not start yet", () => {
  assert.equal(openTasksOf({ queued: 1, delayed: 10, running: 100 }), 111);
});
