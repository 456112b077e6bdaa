import assert from "node:assert/strict";
import { test } from "node:test";

import { deliveryFilter, endDue, seedEnded } from "../helpers/delivery.ts";
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
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** The part of the conformance suite that is about all that happened to one task, and about counting deliveries. */
export function exerciseTimeline(open: OpenStore): void {
  test("shows one task to its account and to the operator, and to no other account", async (t) => {
    const { store } = await open(t);
    const [ada, eve] = [await seedAccount(store, "ada"), await seedAccount(store, "eve")];
    const { id } = await seedDelivery(store, ada);

    const shown = await store.findTimeline({ scope: ada, id });
    assert.equal(shown?.accountId, ada);
    assert.equal(shown.login, "ada");
    assert.equal(shown.isReady, true);
    assert.equal(shown.lease, null);
    assert.deepEqual(
      shown.deliveries.map(({ kind, state }) => [kind, state]),
      [["postback", "scheduled"]],
    );
    assert.deepEqual(await store.findTimeline({ scope: null, id }), shown);
    assert.equal(await store.findTimeline({ scope: eve, id }), null);
    assert.equal(await store.findTimeline({ scope: null, id: newTaskId() }), null);
    assert.equal(await store.findTimeline({ scope: ada, id: "%" }), null);
  });

  test("tells how long input and result are, and gives them where a postback has carried them", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store);
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

  test("names the worker that has a task, and how its lease ended", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store);
    const workerId = await seedWorker(store, "press");
    const task = newTask();
    await store.insertTasks(newPost(accountId, [task]));
    const { leaseExpiresAt } = await leaseOne(store, workerId);

    const held = await store.findTimeline({ scope: accountId, id: task.id });
    assert.deepEqual(held?.lease, {
      ...{ worker: "press", claimedAt: T0, expiresAt: leaseExpiresAt, ending: null },
    });
    await store.cancelTask({ accountId, id: task.id, cancelledAt: T0, ...retainedUntil(T0) });
    const ended = await store.findTimeline({ scope: accountId, id: task.id });
    assert.equal(ended?.lease?.ending, "cancelled");
  });

  test("counts in steps what a count of the whole log counts", async (t) => {
    const { store, again } = await open(t);
    const [ada, eve] = [await seedAccount(store, "ada"), await seedAccount(store, "eve")];
    const hosts = Array.from({ length: 23 }, (_, i) => `${i % 3}.example`);
    const [first] = await seedEnded(store, ada, { hosts });
    await seedEnded(store, eve, { hosts: hosts.slice(0, 5), state: "refused" });
    assert(first !== undefined);
    // A fresh series: its delivery is counted where its newest attempt stands.
    await store.redeliver({
      accountId: ada,
      id: first.id,
      kind: null,
      states: null,
      now: T0 + 1000,
    });
    await endDue(store, ["0.example"], { state: "delivered", endedAt: T0 + 9000 });
    const filters = [
      deliveryFilter(),
      deliveryFilter({ login: "ada" }),
      deliveryFilter({ login: "eve", states: ["given_up"] }),
      deliveryFilter({ states: ["given_up", "refused"], host: "1.example" }),
      deliveryFilter({ since: T0 + 5000 }),
      deliveryFilter({ taskId: first.id }),
      deliveryFilter({ host: "nowhere.example" }),
    ];
    const bounds = [1, 4, 7, 1000];
    const bounded = await Promise.all(
      bounds.map(async (examineMax) => ({ examineMax, from: await again({ examineMax }) })),
    );
    for (const filter of filters) {
      const whole = await store.countEndedDeliveries(filter);
      for (const { examineMax, from } of bounded) {
        const counts = new Map<string, number>();
        let [deliveries, steps] = [0, 0];
        let before: number | null = null;
        do {
          const step = await from.countEndedDeliveriesStep({ filter, before });
          deliveries += step.deliveries;
          for (const { host, deliveries: count } of step.hosts) {
            counts.set(host, (counts.get(host) ?? 0) + count);
          }
          before = step.next;
          steps++;
        } while (before !== null && steps < 100);
        assert.equal(deliveries, whole.deliveries);
        assert.deepEqual(counts, new Map(whole.hosts.map((each) => [each.host, each.deliveries])));
        const attempts = 29;
        if (filter.taskId === null) assert.equal(steps, Math.ceil(attempts / examineMax));
      }
    }
  });

  test("counts nothing where nothing was ever sent", async (t) => {
    const { store } = await open(t);
    const step = { filter: deliveryFilter(), before: null };
    const nothing = { deliveries: 0, hosts: [], next: null, examinedUntil: null };
    assert.deepEqual(await store.countEndedDeliveriesStep(step), nothing);
  });
}
