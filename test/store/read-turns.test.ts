import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";

import { ANY_TASK } from "../../src/domain/task/task-search.ts";
import { ReadTurns, type ReadOwner } from "../../src/store/common/read-turns.ts";
import { openTestStore, seedAccount } from "../helpers/store.ts";

/** Reads of the test's making, which it ends one by one; `begun` are whose they are. */
function startTurns() {
  const turns = new ReadTurns();
  const begun: ReadOwner[] = [];
  const open: PromiseWithResolvers<void>[] = [];
  return {
    ...{ turns, begun },
    ask: (owner: ReadOwner): Promise<void> =>
      turns.take(owner, () => {
        begun.push(owner);
        const read = Promise.withResolvers<void>();
        open.push(read);
        return read.promise;
      }),
    /** Ends the oldest read that is under way, and lets the next one begin. */
    async end(): Promise<void> {
      open.shift()?.resolve();
      await turn();
      await turn();
    },
  };
}

test("a read waits for at most one read of each other owner", async () => {
  const { ask, end, begun } = startTurns();
  const all = [1, 1, 1, 1, 1, 1, 2, 2, 2, "three", null].map((owner) => ask(owner));
  assert.deepEqual(begun, [1, 1]);
  for (let i = 0; i < all.length; i++) await end();
  await Promise.all(all);
  assert.deepEqual(begun, [1, 1, 1, 2, "three", null, 1, 2, 1, 2, 1]);
});

test("the event loop turns between reads that settle immediately", async () => {
  const turns = new ReadTurns();
  let ended = 0;
  const all = Array.from({ length: 10 }, () =>
    turns.take(1, async () => {
      ended++;
    }),
  );
  for (let rounds = 1; ended < all.length; rounds++) {
    assert(ended <= 2 * rounds, `${ended} reads in ${rounds} rounds`);
    await turn();
  }
  await Promise.all(all);
});

test("a failed read passes its turn on", async () => {
  const turns = new ReadTurns();
  const fail = (): Promise<never> => Promise.reject(new Error("broken"));
  const failed = [1, 2, 3, 4].map((owner) => assert.rejects(turns.take(owner, fail), /broken/));
  const last = turns.take(5, async () => "read");
  await turns.idle();
  assert.equal(await last, "read");
  await Promise.all(failed);
  await turns.idle();
});

test("the limit of waiting reads is a thousand for each owner", async () => {
  const { turns, ask, end } = startTurns();
  const all = Array.from({ length: 1002 }, () => ask(1));
  await assert.rejects(ask(1), { name: "StoreError", kind: "overloaded" });
  all.push(ask(2));
  for (let i = 0; i < all.length; i++) await end();
  await Promise.all(all);
  await turns.idle();
});

test("endless searches of one account do not delay other accounts", async (t) => {
  const store = await openTestStore(t, { writer: "thread" });
  const [busy, other] = [await seedAccount(store, "busy"), await seedAccount(store, "other")];
  const within = { limit: 1, after: null };
  let left = 200;
  const searches = Array.from({ length: left }, async () => {
    await store.searchTasks({ ...within, scope: busy, search: ANY_TASK });
    left--;
  });
  const range = { from: 0, to: 1 };
  const others = [
    ...[null, other].map((scope) => store.searchTasks({ ...within, scope, search: ANY_TASK })),
    ...[null, other].map((scope) => store.findTraffic({ ...range, scope })),
    ...[null, other].map((scope) => store.listHostTraffic({ scope, since: 0, limit: 1 })),
    store.countWork(null),
  ];

  await Promise.all(others);
  assert(left > 150, `${left} searches were left`);
  await Promise.all(searches);
});
