import assert from "node:assert/strict";
import { test } from "node:test";

import { HOUR_MS } from "../../src/domain/clock/duration.ts";
import type { NewSession } from "../../src/store/store.ts";
import {
  claimAttempt,
  claimOne,
  giveUpAll,
  newAttemptRecord,
  newPost,
  newReading,
  newStale,
  newTask,
  newTaskId,
  RETENTION_MS,
  seedDelivery,
  seedFinished,
  T0,
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
