import assert from "node:assert/strict";
import { test } from "node:test";

import {
  claimAttempt,
  claimOne,
  newPost,
  newTask,
  seedAccount,
  seedDelivery,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

/** The part of the conformance suite that is about the nodes that share a store. */
export function exerciseCluster(open: OpenStore): void {
  test("a node that is alone is the one member, holds every duty, and has a new name at each start", async (t) => {
    const { store, again } = await open(t);
    const { cluster } = store;
    assert.deepEqual(cluster.membership(), [cluster.self]);
    const duties = ["release", "reap", "orders", "sweep", "sample", "fold", "clock"] as const;
    for (const duty of duties) assert.equal(cluster.holds(duty), true, duty);
    const stop = cluster.onChange(() => assert.fail("nothing changes"));
    await store.close();
    stop();

    const { cluster: later } = await again();

    assert.notEqual(later.self, cluster.self);
    assert.deepEqual(later.membership(), [later.self]);
  });

  test("a node that is alone has left what its earlier life left, and nobody else has left anything", async (t) => {
    const { store, again } = await open(t);
    const accountId = await seedAccount(store);
    await seedDelivery(store, accountId);
    const { seq } = await claimAttempt(store);
    await store.insertTasks(newPost(accountId, [newTask()]));
    await claimOne(store);
    await store.close();

    const reopened = await again();

    assert.deepEqual(await reopened.listInFlight({ of: "ended nodes" }), []);
    assert.equal(await reopened.requeueTasks({ of: "ended nodes" }), 0);
    const left = await reopened.listInFlight({ of: "earlier life" });
    assert.deepEqual(
      left.map((attempt) => attempt.seq),
      [seq],
    );
    assert.equal(await reopened.requeueTasks({ of: "earlier life" }), 1);
  });
}
