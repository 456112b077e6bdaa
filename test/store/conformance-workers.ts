import assert from "node:assert/strict";
import { test } from "node:test";

import {
  leaseOne,
  newPost,
  newTask,
  newWorker,
  seedWorker,
  T0,
  pluck,
  withAccount,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

export function exerciseWorkers(open: OpenStore): void {
  test("a worker is found by the hash of its token", async (t) => {
    const { store } = await open(t);
    const worker = newWorker({ name: "resizer", types: ["b", "a", "b c"] });

    assert.equal(await store.createWorker(worker), "created");

    const holder = await store.findWorkerHolder(worker.hash);
    assert.deepEqual(holder, {
      workerId: holder?.workerId,
      name: "resizer",
      types: ["b", "a", "b c"],
      isRevoked: false,
    });
    assert.equal(await store.findWorkerHolder(newWorker().hash), null);
    assert.equal(await store.findWorkerHolder("resizer"), null);
    assert.equal(await store.findWorkerHolder(""), null);
  });

  test("a name has one active worker, and is free after a revocation", async (t) => {
    const { store } = await open(t);
    const [first, second, third] = [newWorker(), newWorker({ createdAt: T0 + 1 }), newWorker()];

    assert.equal(await store.createWorker(first), "created");
    assert.equal(await store.createWorker(second), "exists");
    assert.equal(await store.findWorkerHolder(second.hash), null);
    await store.revokeWorker({ name: "w", revokedAt: T0 + 5 });
    assert.equal(await store.createWorker(second), "created");
    assert.equal(await store.createWorker(third), "exists");

    assert.equal((await store.findWorkerHolder(first.hash))?.isRevoked, true);
    assert.equal((await store.findWorkerHolder(second.hash))?.isRevoked, false);
  });

  test("a revocation is visible immediately, also in the turn of an earlier read", async (t) => {
    const { store } = await open(t);
    const worker = newWorker();
    await store.createWorker(worker);

    const before = store.findWorkerHolder(worker.hash);
    const revoked = store.revokeWorker({ name: "w", revokedAt: T0 + 5 });

    // PostgreSQL may run the read after the change.
    assert.equal((await before)?.name, "w");
    const { hash: _, ...shown } = worker;
    const workerId = (await store.findWorkerHolder(worker.hash))?.workerId;
    const expected = { ...shown, workerId, lastSeenAt: null, revokedAt: T0 + 5, leases: 0 };
    assert.deepEqual(await revoked, expected);
    assert.equal((await store.findWorkerHolder(worker.hash))?.isRevoked, true);
  });

  test("a second revocation returns the worker of the last one, with its time", async (t) => {
    const { store } = await open(t);
    for (const [i, lastFour] of ["aaaa", "bbbb"].entries()) {
      await store.createWorker(newWorker({ lastFour }));
      // The clock was set back meanwhile.
      await store.revokeWorker({ name: "w", revokedAt: T0 + 9 - i });
    }

    const again = await store.revokeWorker({ name: "w", revokedAt: T0 + 99 });

    assert.equal(again?.lastFour, "bbbb");
    assert.equal(again.revokedAt, T0 + 8);
    assert.equal(await store.revokeWorker({ name: "W", revokedAt: T0 }), null);
  });

  test("workers are listed by name, revoked workers newest first, with their leases", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const lastFour of ["old1", "old2"]) {
      await store.createWorker(newWorker({ name: "b", lastFour }));
      await store.revokeWorker({ name: "b", revokedAt: T0 + 1 });
    }
    const [b, a] = [await seedWorker(store, "b"), await seedWorker(store, "a")];
    for (const workerId of [b, b, a]) {
      await store.insertTasks(newPost(accountId, [newTask()]));
      await leaseOne(store, workerId);
    }
    await store.insertTasks(newPost(accountId, [newTask()]));
    const ended = await leaseOne(store, a);
    const sequel = { kind: "requeue", isRunCounted: false } as const;
    const ends = [{ ...ended, how: "released", sequel }] as const;
    await store.endLeases({ ends, workerId: a, now: T0 });

    const listed = await store.listWorkers();

    assert.deepEqual(pluck(listed, "name", "lastFour", "leases", "revokedAt"), [
      ["a", "wxyz", 1, null],
      ["b", "wxyz", 2, null],
      ["b", "old2", 0, T0 + 1],
      ["b", "old1", 0, T0 + 1],
    ]);
    assert.deepEqual(listed[0]?.types, ["echo"]);
  });

  test("the last request of a worker never goes back", async (t) => {
    const { store } = await open(t);
    const [a, b] = [await seedWorker(store, "a"), await seedWorker(store, "b")];
    const seen = async () => pluck(await store.listWorkers(), "lastSeenAt");

    assert.deepEqual(await seen(), [null, null]);
    await store.touchWorkers([
      { workerId: a, seenAt: T0 + 5 },
      { workerId: 99_999, seenAt: T0 + 5 },
    ]);
    await store.touchWorkers([
      { workerId: a, seenAt: T0 + 4 },
      { workerId: b, seenAt: T0 + 7 },
    ]);

    assert.deepEqual(await seen(), [T0 + 5, T0 + 7]);
  });
}
