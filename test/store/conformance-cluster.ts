import assert from "node:assert/strict";
import { test } from "node:test";

import { NODE_ROLES } from "../../src/store/cluster.ts";
import type { ReportedProgress } from "../../src/store/store.ts";
import {
  claimAttempt,
  claimOne,
  newFinish,
  newLeaseClaim,
  newLeaseType,
  newPost,
  newTask,
  newTaskId,
  seedDelivery,
  seedWorker,
  T0,
  pluck,
  withAccount,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

export function exerciseCluster(open: OpenStore): void {
  test("a single node is the only member, holds every role, and has a new id at each start", async (t) => {
    const { store, again } = await open(t);
    const { cluster } = store;
    assert.deepEqual(cluster.membership(), [cluster.self]);
    for (const role of NODE_ROLES) assert.equal(cluster.holds(role), true, role);
    assert.equal(cluster.isMember(), true);
    if (!cluster.isShared) cluster.resign();
    for (const role of NODE_ROLES) assert.equal(cluster.holds(role), true, role);
    const stop = cluster.onChange(() => assert.fail("nothing changes"));
    await store.close();
    stop();

    const { cluster: later } = await again();

    assert.notEqual(later.self, cluster.self);
    assert.deepEqual(later.membership(), [later.self]);
  });

  test("a single node is listed with its roles and its newest facts", async (t) => {
    const { store } = await open(t);
    const { cluster } = store;
    const none = { all: 0, failed: 0 };
    const facts = { url: null, runs: none, receivers: none, running: [], sending: 0 };

    const [silent, ...others] = await store.listNodes();
    cluster.tellFacts(() => facts);
    const newer = { ...facts, url: "http://127.0.0.1:1", running: [{ type: "echo", runs: 2 }] };
    cluster.tellFacts(() => newer);
    const [node] = await store.listNodes();

    assert.deepEqual(others, []);
    assert.equal(silent?.facts, null);
    assert.deepEqual(node?.facts, newer);
    assert.equal(node.id, cluster.self);
    assert.deepEqual([...node.roles].sort(), [...NODE_ROLES].sort());
    assert(node.name.length > 0 && node.version.length > 0);
    assert(node.joinedAt <= node.lastSeenAt);
    assert.equal(node.endedAt, null);
  });

  test("the health of a shared database is reported, of a file it is null", async (t) => {
    const { store } = await open(t);

    const health = await store.findDatabaseHealth();

    assert.equal(health !== null, store.cluster.isShared);
    if (health === null) return;
    assert.match(health.version, /^\d+(\.\d+)?$/);
    assert(health.bytes > 0);
    const { used, max } = health.connections;
    assert(used > 0 && used <= max, `${used} of ${max}`);
    const { queue, outbox } = health.deadRows;
    assert(queue >= 0 && outbox >= 0);
    const { standbys, commitsWait } = health;
    assert.deepEqual({ standbys, commitsWait }, { standbys: [], commitsWait: false });
  });

  test("the newest progress of running tasks is kept in a shared store, not in a file", async (t) => {
    const { store, again, accountId } = await withAccount(open(t));
    const tasks = [newTask(), newTask(), newTask()];
    await store.insertTasks(newPost(accountId, tasks));
    const ids = pluck(tasks, "id");
    const [running, ended] = await store.claimTasks({ type: "echo", max: 2, now: T0 });
    assert(running !== undefined && ended !== undefined);
    const note = (progress: number) =>
      store.noteProgress(
        ids.map((id) => ({ id, progress: { progress, note: "é" }, by: { run: 1 } })),
      );
    await note(0.5);
    await note(0.75);
    await store.finishTask(newFinish(ended));

    const kept = [{ id: running.id, progress: { progress: 0.75, note: "é" } }];
    const expected = store.cluster.isShared ? kept : [];
    assert.deepEqual(await store.findProgress({ ids }), expected);
    const other = await again();
    assert.deepEqual(await other.findProgress({ ids }), expected);
    assert.deepEqual(await other.findProgress({ ids: [newTaskId()] }), []);
  });

  test("progress of an earlier run or of an ended lease is not kept", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const [run, leased] = [newTask(), newTask({ type: "print" })];
    await store.insertTasks(newPost(accountId, [run, leased]));
    const workerId = await seedWorker(store);
    const types = [newLeaseType({ type: "print" })];
    const lease = async () => (await store.claimLeases(newLeaseClaim(workerId, { types })))[0];
    await store.requeueTasks(await claimOne(store));
    await claimOne(store);
    const first = await lease();
    assert(first !== undefined);
    const end = { id: first.id, leaseId: first.leaseId, how: "released" } as const;
    const sequel = { kind: "requeue", isRunCounted: false } as const;
    await store.endLeases({ ends: [{ ...end, sequel }], workerId, now: T0 });
    const second = await lease();
    assert(second !== undefined);
    const ids = [run.id, leased.id];
    const of = (id: string, by: ReportedProgress["by"], progress: number) =>
      store.noteProgress([{ id, progress: { progress, note: null }, by }]);
    await of(run.id, { run: 2 }, 0.2);
    await of(leased.id, { leaseId: second.leaseId }, 0.3);

    await of(run.id, { run: 1 }, 0.9);
    await of(leased.id, { leaseId: first.leaseId }, 0.9);

    const found = await store.findProgress({ ids });
    const shown = ids.map((id) => found.find((each) => each.id === id)?.progress.progress);
    const none = [undefined, undefined];
    assert.deepEqual(shown, store.cluster.isShared ? [0.2, 0.3] : none);
  });

  test("a single node finds the attempts and tasks of its earlier life", async (t) => {
    const { store, again, accountId } = await withAccount(open(t));
    await seedDelivery(store, accountId);
    const { seq } = await claimAttempt(store);
    await store.insertTasks(newPost(accountId, [newTask()]));
    await claimOne(store);
    await store.close();

    const reopened = await again();

    // In a shared store the earlier life of a node is an ended node.
    if (!reopened.cluster.isShared) {
      assert.deepEqual(await reopened.listInFlight({ of: "ended nodes" }), []);
      assert.equal(await reopened.requeueTasks({ of: "ended nodes" }), 0);
    }
    const left = await reopened.listInFlight({ of: "earlier life" });
    assert.deepEqual(
      left.map((attempt) => attempt.seq),
      [seq],
    );
    assert.equal(await reopened.requeueTasks({ of: "earlier life" }), 1);
  });
}
