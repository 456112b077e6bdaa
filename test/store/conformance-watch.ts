import assert from "node:assert/strict";
import { test } from "node:test";

import type { Changes, Store } from "../../src/store/store.ts";
import {
  claimAttempt,
  claimOne,
  giveUpAll,
  newAttemptRecord,
  newFinish,
  newKeyToStore,
  newPost,
  newTask,
  newTaskId,
  RETENTION_MS,
  seedAccount,
  seedDelivery,
  T0,
  webhook,
  postTask,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** Accounts of the notifications from now on; `take` returns and removes them. */
function watch(store: Store): {
  readonly take: () => readonly number[];
  readonly stop: () => void;
} {
  const told: number[] = [];
  const stop = store.watch(({ accounts }) => {
    assert.equal(
      new Set(accounts).size,
      accounts.length,
      "an account is named once a notification",
    );
    assert(accounts.length > 0, "a notification names an account");
    told.push(...accounts);
  });
  return { take: () => [...new Set(told.splice(0))].toSorted((a, b) => a - b), stop };
}

export function exerciseWatch(open: OpenStore): void {
  test("each step of a task notifies watchers of its account", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store, "ada");
    await seedAccount(store, "bob");
    const { take } = watch(store);
    const task = await postTask(store, ada, { postback: webhook("a.example") });
    assert.deepEqual(take(), [ada], "posted");
    const claimed = await claimOne(store);
    assert.deepEqual(take(), [ada], "started");
    await store.finishTask(newFinish(claimed));
    assert.deepEqual(take(), [ada], "ended");
    const attempt = await claimAttempt(store);
    assert.deepEqual(take(), [ada], "an attempt was started");
    await store.recordAttempt(newAttemptRecord(attempt));
    assert.deepEqual(take(), [ada], "an attempt has ended");
    await store.redeliver({
      accountId: ada,
      id: task.id,
      kind: null,
      states: null,
      now: T0 + 2000,
    });
    assert.deepEqual(take(), [ada], "it is sent again");
    await store.collectTask({ accountId: ada, id: task.id });
    assert.deepEqual(take(), [ada], "collected");
    await giveUpAll(store);
    take();
    await store.eraseExpired({ now: T0 + 1000 + RETENTION_MS, max: 10 });
    assert.deepEqual(take(), [ada], "erased");
  });

  test("a notification of the node's own writes has no types, lanes or ends", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store, "ada");
    const told: Changes[] = [];
    store.watch((changes) => told.push(changes));
    await store.insertTasks(newPost(ada, [newTask({ postback: webhook("a.example") })]));
    const lanes = await store.finishTask(newFinish(await claimOne(store)));
    assert.deepEqual(lanes, [{ accountId: ada, host: "a.example" }]);
    const own = { accounts: [ada], types: [], lanes: [], ended: [] };
    assert.deepEqual(told, [own, own, own]);
  });

  test("a write without a changed task or delivery sends no notification", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store, "ada");
    const { id } = await seedDelivery(store, ada);
    await store.collectTask({ accountId: ada, id });
    const { take } = watch(store);
    const key = { ...newKeyToStore(), login: "ada", createdAt: T0, activeMax: 20 };
    await store.createKey(key);
    await store.touchKeys([{ keyId: key.keyId, usedAt: T0 }]);
    await store.collectTask({ accountId: ada, id });
    await store.collectTask({ accountId: ada, id: newTaskId() });
    await store.eraseExpired({ now: T0, max: 10 });
    assert.deepEqual(take(), []);
  });

  test("all watchers are notified until they stop", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store, "ada");
    const [one, other] = [watch(store), watch(store)];
    await store.insertTasks(newPost(ada, [newTask()]));
    assert.deepEqual([one.take(), other.take()], [[ada], [ada]]);
    one.stop();
    one.stop();
    await store.insertTasks(newPost(ada, [newTask()]));
    assert.deepEqual([one.take(), other.take()], [[], [ada]]);
  });
}
