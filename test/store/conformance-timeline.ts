import assert from "node:assert/strict";
import { test } from "node:test";

import {
  claimOne,
  leaseOne,
  newFinish,
  newPost,
  newTask,
  newTaskId,
  retainedUntil,
  seedAccount,
  seedDelivery,
  seedWorker,
  T0,
  webhook,
  pluck,
  withAccount,
  postTask,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

export function exerciseTimeline(open: OpenStore): void {
  test("a timeline is found by its account and the operator only", async (t) => {
    const { store } = await open(t);
    const [ada, eve] = [await seedAccount(store, "ada"), await seedAccount(store, "eve")];
    const { id } = await seedDelivery(store, ada);

    const shown = await store.findTimeline({ scope: ada, id });
    assert.equal(shown?.accountId, ada);
    assert.equal(shown.login, "ada");
    assert.equal(shown.isReady, true);
    assert.equal(shown.lease, null);
    assert.deepEqual(pluck(shown.deliveries, "kind", "state"), [["postback", "scheduled"]]);
    assert.deepEqual(await store.findTimeline({ scope: null, id }), shown);
    assert.equal(await store.findTimeline({ scope: eve, id }), null);
    assert.equal(await store.findTimeline({ scope: null, id: newTaskId() }), null);
    assert.equal(await store.findTimeline({ scope: ada, id: "%" }), null);
  });

  test("a timeline has the sizes of input and result, and their texts if a postback carried them", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const inputText = JSON.stringify("ü".repeat(100_000));
    const plain = newTask({ inputText });
    const sent = newTask({ inputText, postback: webhook("a.example") });
    for (const task of [plain, sent]) {
      await store.insertTasks(newPost(accountId, [task]));
      const before = await store.findTimeline({ scope: null, id: task.id });
      assert.deepEqual([before?.inputBytes, before?.resultBytes], [200_002, null]);
      assert.deepEqual([before?.task.inputText, before?.deliveries], [null, []]);
      const run = await claimOne(store);
      await store.finishTask(newFinish(run, { resultText: inputText }));
    }

    const [one, other] = [
      await store.findTimeline({ scope: null, id: plain.id }),
      await store.findTimeline({ scope: null, id: sent.id }),
    ];
    assert.deepEqual([one?.inputBytes, one?.resultBytes], [200_002, 200_002]);
    assert.deepEqual([one?.task.inputText, one?.task.resultText], [null, null]);
    assert.deepEqual([other?.task.inputText, other?.task.resultText], [inputText, inputText]);
  });

  test("a timeline names the worker of the lease and its end", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const workerId = await seedWorker(store, "press");
    const task = await postTask(store, accountId);
    const { leaseExpiresAt } = await leaseOne(store, workerId);

    const held = await store.findTimeline({ scope: accountId, id: task.id });
    assert.deepEqual(held?.lease, {
      ...{ worker: "press", claimedAt: T0, expiresAt: leaseExpiresAt, ending: null },
    });
    await store.cancelTask({ accountId, id: task.id, cancelledAt: T0, ...retainedUntil(T0) });
    const ended = await store.findTimeline({ scope: accountId, id: task.id });
    assert.equal(ended?.lease?.ending, "cancelled");
  });
}
