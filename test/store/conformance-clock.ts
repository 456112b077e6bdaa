import assert from "node:assert/strict";
import { test } from "node:test";

import { HOUR_MS } from "../../src/domain/clock/duration.ts";
import { NODE_ROLES } from "../../src/store/cluster.ts";
import type { NewSession, ReportedProgress } from "../../src/store/store.ts";
import {
  RETENTION_MS,
  T0,
  claimAttempt,
  claimOne,
  giveUpAll,
  newAttemptRecord,
  newFinish,
  newLeaseClaim,
  newLeaseType,
  newPost,
  newReading,
  newStale,
  newTask,
  newTaskId,
  pluck,
  seedDelivery,
  seedFinished,
  seedWorker,
  withAccount,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

export function exerciseClock(open: OpenStore): void {
  test("the last clock reading is kept over a restart", async (t) => {
    const { store, again } = await open(t);
    assert.equal(await store.findClockReading(), null);
    await store.keepClockReading(newReading());
    const later = newReading({ wallAt: T0 + 1, uptimeMs: 1234.5, bootId: null });
    await store.keepClockReading(later);
    assert.deepEqual(await store.findClockReading(), later);
    await store.close();
    assert.deepEqual(await (await again()).findClockReading(), later);
  });

  test("a clock step that has moved times is not applied again at the next start", async (t) => {
    const { store } = await open(t);
    await store.keepClockReading(newReading());
    await store.shiftTimes({ after: T0, by: HOUR_MS + 0.4 });
    assert.deepEqual(await store.findClockReading(), newReading({ wallAt: T0 + HOUR_MS }));
  });

  test("a start moves scheduled times by the clock step since the last reading", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await seedDelivery(store, accountId, { dueAt: T0 + 1000 });
    const start = {
      reading: newReading({ steadyAt: 7 }),
      isElapsedKnown: true,
    };

    assert.equal(await store.resumeClock({ ...start, stepMs: HOUR_MS }), 1);

    const [lane] = await store.listLanes({ accountId: "all" });
    assert.equal(lane?.freshDueAt, T0 + 1000 + HOUR_MS);
    assert.deepEqual(await store.findClockReading(), start.reading);
    // A crash follows: the kept reading has no step any more.
    assert.equal(await store.resumeClock({ ...start, stepMs: 0 }), 0);
    assert.equal((await store.listLanes({ accountId: "all" }))[0]?.freshDueAt, T0 + 1000 + HOUR_MS);
  });

  test("overdue attempts stay overdue after the clock was set back and corrected", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    await seedDelivery(store, accountId, { dueAt: T0 + 1000 });
    await store.insertTasks(newPost(accountId, [newTask()]));
    const { seq } = await claimOne(store);
    await store.retryTask({ seq, startAt: T0 + 1000 });
    const byMs = -9 * HOUR_MS;
    const now = T0 + 2000;
    const start = { stepMs: byMs, isElapsedKnown: true };

    await store.resumeClock({ ...start, reading: newReading({ wallAt: now + byMs }) });
    const dueAt = async () => (await store.listLanes({ accountId: "all" }))[0]?.freshDueAt;
    assert.equal(await dueAt(), T0 + 1000 + byMs);
    await store.shiftTimes({ after: now + byMs, by: -byMs });

    assert.equal(await dueAt(), T0 + 1000 + byMs, "it is overdue and stays so");
    assert.equal(await store.releaseDelayed({ now: now + byMs, max: 9 }), 1);
  });

  test("a start ends sessions and sign-in links only if the elapsed time is unknown", async (t) => {
    for (const isElapsedKnown of [true, false]) {
      const { store } = await open(t);
      const session = newSession();
      await store.createSession(session);
      await store.createSignInLink({ hash: "link", expiresAt: T0 + HOUR_MS });
      const reading = newReading();
      await store.resumeClock({ reading, stepMs: 0, isElapsedKnown });
      assert.equal((await store.findSession(session.hash)) !== null, isElapsedKnown);
      const use = { hash: "link", now: T0 + HOUR_MS / 2, session: newSession() };
      assert.equal(await store.useSignInLink(use), isElapsedKnown ? "created" : "refused");
    }
  });

  test("a sign-in link moves with the clock", async (t) => {
    const { store } = await open(t);
    await store.createSignInLink({ hash: "link", expiresAt: T0 + HOUR_MS });
    await store.shiftTimes({ after: T0, by: 24 * HOUR_MS });
    const use = { hash: "link", now: T0 + 24 * HOUR_MS + 1, session: newSession() };
    assert.equal(await store.useSignInLink(use), "created");
  });

  test("the service clock decides the erasure of a task, not its shown expiry", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const task = newTask();
    await seedFinished(store, accountId, { tasks: [task] });
    const key = { accountId, id: task.id };
    const expiresAt = T0 + 1000 + RETENTION_MS;
    await store.shiftTimes({ after: 0, by: -5 * RETENTION_MS });
    assert.equal((await store.findTask(key))?.task.expiresAt, expiresAt);
    assert.equal((await store.eraseExpired({ now: expiresAt - 1, max: 9 })).looked, 0);
    assert.equal((await store.eraseExpired({ now: expiresAt, max: 9 })).looked, 1);
    assert.equal(await store.findTask(key), null);
  });

  for (const how of ["scheduled", "in flight"] as const) {
    test(`a task whose webhook is ${how} is kept and examined again after an hour`, async (t) => {
      const { store, accountId } = await withAccount(open(t));
      const kept = await seedDelivery(store, accountId);
      const others = [newTask(), newTask(), newTask()];
      await seedFinished(store, accountId, { tasks: others });
      if (how === "in flight") await claimAttempt(store);
      const late = T0 + 2 * RETENTION_MS;
      const count = async () => (await store.countWork(accountId)).completed;

      assert.equal((await store.eraseExpired({ now: late, max: 2 })).looked, 2);
      assert.equal(await count(), 3);
      assert.equal((await store.eraseExpired({ now: late, max: 2 })).looked, 2);
      assert.equal((await store.eraseExpired({ now: late + HOUR_MS - 1, max: 9 })).looked, 0);
      assert.notEqual(await store.findTask({ accountId, id: kept.id }), null);
      assert.equal((await store.eraseExpired({ now: late + HOUR_MS, max: 9 })).looked, 1);
      assert.equal(await count(), 1);

      await giveUpAll(store);
      assert.equal((await store.countWork(accountId)).undelivered, 1);
      assert.equal((await store.eraseExpired({ now: late + 2 * HOUR_MS, max: 9 })).looked, 1);
      const { completed, undelivered } = await store.countWork(accountId);
      assert.deepEqual([completed, undelivered], [0, 0]);
    });
  }

  test("an erasure examines each kept task once", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (let i = 0; i < 30; i++) await seedDelivery(store, accountId, { host: `h${i}.example` });
    const late = T0 + 2 * RETENTION_MS;
    const looked = [];
    do looked.push((await store.eraseExpired({ now: late, max: 7 })).looked);
    while (looked.at(-1) !== 0);
    assert.deepEqual(looked, [7, 7, 7, 7, 2, 0]);
    assert.equal((await store.countWork(accountId)).completed, 30);
  });

  test("records in the far future are erased, records of the present are not", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const ahead = T0 + 9 * RETENTION_MS;
    for (const endedAt of [T0, ahead]) {
      await seedDelivery(store, accountId, { dueAt: endedAt });
      const attempt = await claimAttempt(store, "a.example", endedAt);
      const decision = { state: "delivered" } as const;
      await store.recordAttempt(newAttemptRecord(attempt, { endedAt, decision }));
    }
    const read = async () => {
      const { steps } = await store.findTraffic({ scope: null, from: 0, to: ahead + RETENTION_MS });
      return steps.filter(({ completed }) => completed > 0).length;
    };
    assert.equal(await read(), 2);

    while ((await store.eraseStale(newStale({ recordsAfter: T0 + RETENTION_MS }))) > 0) continue;

    assert.equal(await read(), 1);
  });
}

function newSession(): NewSession {
  return { hash: newTaskId(), keyId: null, createdAt: T0, sessionsMax: 10 };
}

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
}
