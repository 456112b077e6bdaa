import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { LeaseRef } from "../../src/domain/lease/lease.ts";
import type { Task } from "../../src/domain/task/task.ts";
import type { BeatOutcome, Lease, LeasedTask, LeaseEnd, Store } from "../../src/store/store.ts";
import {
  claimLanes,
  endLease,
  giveUpAll,
  LEASE_MS,
  leaseOne,
  newLeaseClaim,
  newLeaseEnd,
  newLeaseType,
  newPost,
  newRunEnd,
  newTask,
  newTaskId,
  pluck,
  postTask,
  retainedUntil,
  RETENTION_MS,
  seedWorker,
  T0,
  TIMEOUT_MS,
  webhook,
  withAccount,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

const REQUEUED = { kind: "requeue", isRunCounted: true } as const;
const RELEASED = { how: "released", sequel: { kind: "requeue", isRunCounted: false } } as const;
const RETRIED = { how: "failed", sequel: { kind: "retry", startAt: T0 + 60_000 } } as const;
const EXPIRED = { how: "expired", sequel: REQUEUED } as const;
const WAYS: readonly Partial<LeaseEnd>[] = [{}, RETRIED, RELEASED, EXPIRED];
/** The expiry of a lease that was claimed at {@link T0}. */
const LATE = T0 + LEASE_MS;

/** An account, a worker and one queued task with a postback. */
async function openWorld(t: TestContext, open: OpenStore) {
  const { store, again, accountId } = await withAccount(open(t));
  const workerId = await seedWorker(store);
  const postback = webhook("a.example");
  const task = await postTask(store, accountId, { inputText: "[1]", postback });
  const found = async (): Promise<Task> => {
    const known = await store.findTask({ accountId, id: task.id });
    assert(known !== null);
    return known.task;
  };
  return { store, again, accountId, workerId, task, found };
}

/** A store, and the worker that uses it. */
interface Caller {
  readonly store: Store;
  readonly workerId: number;
}

async function findLease({ store, workerId }: Caller, ref: LeaseRef): Promise<Lease> {
  const [lease] = await store.findLeases({ leases: [ref], workerId });
  assert(lease !== undefined && lease !== null);
  return lease;
}

async function beat(
  { store, workerId }: Caller,
  lease: LeaseRef,
  now: number,
): Promise<BeatOutcome | undefined> {
  return (await store.extendLeases({ leases: [lease], workerId, now }))[0];
}

/** The outcome of a heartbeat and of each way to end a lease, none of which has an effect. */
async function outcomesOf(caller: Caller, lease: LeaseRef, now = T0 + 1000) {
  const ends = [];
  for (const way of WAYS) ends.push(await endLease(caller.store, newLeaseEnd(lease, way), now));
  for (const { isNew, lanes } of ends) assert.deepEqual([isNew, lanes], [false, []]);
  return [await beat(caller, lease, now), ...pluck(ends, "outcome")].join(" ");
}

const ALL_LOST = "lost lost lost lost lost";

/** Rules outside the model of leases: texts, batches, other workers, erasure, restarts and clocks. */
export function exerciseLeases(open: OpenStore): void {
  test("a claim starts tasks, each with a lease that ends with the timeout at the latest", async (t) => {
    const { store, accountId, workerId, task, found } = await openWorld(t, open);
    await postTask(store, accountId, { type: "quick", tag: "t" });
    const types = [newLeaseType(), newLeaseType({ type: "quick", timeoutMs: 5 })];

    const [first, second, ...none] = await store.claimLeases(newLeaseClaim(workerId, { types }));

    assert(first !== undefined && second !== undefined);
    const { seq, leaseId } = first;
    const unknown = { id: task.id, leaseId: "x" };
    const shown = { id: task.id, accountId, type: "echo", tag: null, marketplace: null };
    const counted = { inputText: "[1]", queuedAt: T0, traceText: null, runs: 1, failures: 0 };
    assert.deepEqual(first, { seq, ...shown, ...counted, leaseId, leaseExpiresAt: LATE });
    assert.equal(second.leaseExpiresAt, T0 + 5);
    assert.deepEqual(none, []);
    assert.match(leaseId, /^[\w-]{22}$/);
    assert.notEqual(second.leaseId, leaseId);
    assert.deepEqual(await store.findLeases({ leases: [second, unknown, first], workerId }), [
      { ...pickLease(second, "quick"), expiresAt: T0 + 5, deadlineAt: T0 + 5 },
      null,
      { ...pickLease(first, "echo"), expiresAt: LATE, deadlineAt: T0 + TIMEOUT_MS },
    ]);
    const { state, statusCode, startedAt, runs } = await found();
    assert.deepEqual([state, statusCode, startedAt, runs], ["running", 40601, T0, 1]);
    assert.deepEqual(await store.claimLeases(newLeaseClaim(workerId)), []);
  });

  test("the first end of a lease counts: its result, its error, and the first attempts", async (t) => {
    for (const state of ["completed", "failed"] as const) {
      const { store, accountId, workerId, found } = await openWorld(t, open);
      const lease = await leaseOne(store, workerId);
      const texts = { resultText: "[2]", errorText: "{}", code: 50010 } as const;
      const sequel = {
        kind: "finish",
        ...newRunEnd({ state, ...texts, endedAt: T0 + 7 }),
      } as const;
      const end = newLeaseEnd(lease, { how: state, sequel });

      const lanes = [{ accountId, host: "a.example" }];
      assert.deepEqual(await endLease(store, end), { outcome: "ok", isNew: true, lanes });
      const other = { ...sequel, resultText: "[3]", endedAt: T0 + 8 };
      for (const again of [end, newLeaseEnd(lease, { how: state, sequel: other })]) {
        const outcome = { outcome: "ok", isNew: false, lanes: [] };
        assert.deepEqual(await endLease(store, again), outcome);
      }

      const { completedAt, expiresAt, ...ended } = await found();
      assert.deepEqual([ended.state, ended.statusCode], [state, 50010]);
      assert.deepEqual([ended.resultText, ended.errorText], ["[2]", "{}"]);
      assert.deepEqual([completedAt, expiresAt], [T0 + 7, T0 + 7 + RETENTION_MS]);
      assert.equal((await claimLanes(store, ["a.example"], { now: T0 + 7 })).length, 1);
    }
  });

  test("each item of a batch has its own outcome, in order, repeated items too", async (t) => {
    const { store, accountId, workerId, task } = await openWorld(t, open);
    await store.insertTasks(newPost(accountId, [newTask(), newTask()]));
    const [a, b, c] = await store.claimLeases(newLeaseClaim(workerId));
    assert(a !== undefined && b !== undefined && c !== undefined);
    const forged = { id: task.id, leaseId: b.leaseId };
    const unknown = { id: newTaskId(), leaseId: a.leaseId };
    const ends = [unknown, c, forged, a, c].map((ref) => newLeaseEnd(ref));
    const now = T0 + 1000;

    const all = [...ends, newLeaseEnd(a, RELEASED)];
    const results = await store.endLeases({ ends: all, workerId, now });
    const leases = [unknown, b, forged, a, b];
    const beats = await store.extendLeases({ leases, workerId, now });

    assert.equal(pluck(results, "outcome").join(" "), "lost ok lost ok ok lost");
    assert.deepEqual(pluck(results, "isNew"), [false, true, false, true, false, false]);
    assert.deepEqual(beats, ["lost", "ok", "lost", "lost", "ok"]);
    assert.deepEqual(await store.endLeases({ ends: [], workerId, now: T0 }), []);
    assert.deepEqual(await store.extendLeases({ leases: [], workerId, now: T0 }), []);
    assert.deepEqual(await store.findLeases({ leases: [], workerId }), []);
  });

  test("a lease is unknown to other workers in each state, and the daemon ends any lease", async (t) => {
    const { store, accountId, workerId, task, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    const other = await seedWorker(store, "other");
    const ends = WAYS.map((way) => newLeaseEnd(lease, way));
    const lost = WAYS.map(() => ({ outcome: "lost", isNew: false, lanes: [] }));
    const isUnknown = async (now: number): Promise<void> => {
      assert.deepEqual(await store.endLeases({ ends, workerId: other, now }), lost);
      assert.equal(await beat({ store, workerId: other }, lease, now), "lost");
      assert.deepEqual(await store.findLeases({ leases: [lease], workerId: other }), [null]);
    };

    await isUnknown(LATE);
    assert.equal((await found()).state, "running");
    assert.equal((await endLease(store, newLeaseEnd(lease, EXPIRED), LATE)).isNew, true);
    await isUnknown(LATE);
    assert.equal((await found()).state, "queued");
    const end = { cancelledAt: LATE, ...retainedUntil(LATE) };
    assert.equal(await store.cancelTask({ accountId, id: task.id, ...end }), "cancelled");
    await isUnknown(LATE);
  });

  // SQLite reuses the number of an erased row, PostgreSQL does not.
  test("a lease is erased with its task, and has no effect on the next task", async (t) => {
    const { store, accountId, workerId } = await openWorld(t, open);
    const old = await leaseOne(store, workerId);
    await endLease(store, newLeaseEnd(old));
    await giveUpAll(store);
    assert.equal((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 9 })).looked, 1);
    assert.deepEqual(await store.findLeases({ leases: [old], workerId }), [null]);
    await postTask(store, accountId);
    const lease = await leaseOne(store, workerId);
    assert.equal((await findLease({ store, workerId }, lease)).losses, 0);

    assert.equal(await outcomesOf({ store, workerId }, old), ALL_LOST);
    const mixed = { id: lease.id, leaseId: old.leaseId };
    assert.equal(await outcomesOf({ store, workerId }, mixed), ALL_LOST);

    assert.equal((await endLease(store, newLeaseEnd(lease))).isNew, true);
  });

  test("an expired lease is lost after the daemon itself has started the task", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    await endLease(store, newLeaseEnd(lease, EXPIRED), LATE);
    await store.claimTasks({ type: "echo", max: 1, now: LATE });

    assert.equal(await outcomesOf({ store, workerId }, lease, LATE), "lost lost lost lost ok");
    assert.equal((await found()).state, "running");
  });

  test("due leases are listed by expiry, up to the limit", async (t) => {
    const { store, accountId, workerId } = await openWorld(t, open);
    await store.insertTasks(newPost(accountId, [newTask(), newTask(), newTask()]));
    const [a, b, c, d] = await store.claimLeases(newLeaseClaim(workerId));
    assert(a !== undefined && b !== undefined && c !== undefined && d !== undefined);
    for (const [i, lease] of [c, a, b].entries()) await beat({ store, workerId }, lease, T0 + i);
    await endLease(store, newLeaseEnd(d));
    const due = async (now: number, max = 9) =>
      pluck(await store.listDueLeases({ now, max }), "leaseId");

    assert.deepEqual(await due(LATE - 1), []);
    assert.deepEqual(await due(LATE), [c.leaseId]);
    assert.deepEqual(await due(LATE + 9), pluck([c, a, b], "leaseId"));
    assert.deepEqual(await due(LATE + 9, 2), pluck([c, a], "leaseId"));
    const [first] = await store.listDueLeases({ now: LATE, max: 1 });
    assert.deepEqual(first, await findLease({ store, workerId }, c));
  });

  test("a start requeues runs of the daemon, and workers keep their leases", async (t) => {
    const { store, again, accountId, workerId } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    const own = await postTask(store, accountId);
    await store.claimTasks({ type: "echo", max: 9, now: T0 });
    await store.close();

    const reopened = await again();

    assert.equal(await reopened.requeueTasks({ of: "earlier life" }), 1);
    const now = T0 + 80_000;
    assert.deepEqual(await reopened.resumeLeases({ of: "earlier life", now }), [
      { ...pickLease(lease, "echo"), expiresAt: now + LEASE_MS, deadlineAt: now + LEASE_MS },
    ]);
    assert.equal((await endLease(reopened, newLeaseEnd(lease))).isNew, true);
    assert.equal((await leaseOne(reopened, workerId)).id, own.id);
  });

  for (const [name, timeoutMs, starts] of [
    [
      "its full time, also after the clock was set back",
      TIMEOUT_MS,
      [
        [T0 + 50_000, LEASE_MS, TIMEOUT_MS - 50_000],
        [T0 - 9_000_000, LEASE_MS, TIMEOUT_MS],
        [T0 - 8_950_000, LEASE_MS, TIMEOUT_MS - 50_000],
        // The timeout passed during the stop, and the worker may have finished before.
        [T0, LEASE_MS, LEASE_MS],
        [T0 - 9_000_000, LEASE_MS, TIMEOUT_MS],
      ],
    ],
    ["at most its timeout", 9, [T0 + 3, T0 + 999, T0 - 999].map((now) => [now, 9, 9])],
  ] as const) {
    test(`a lease has ${name}, from a start on`, async (t) => {
      const { store, workerId } = await openWorld(t, open);
      await store.claimLeases(newLeaseClaim(workerId, { types: [newLeaseType({ timeoutMs })] }));
      for (const [now = 0, leaseMs, leftMs] of starts) {
        const [lease] = await store.resumeLeases({ of: "earlier life", now });
        assert(lease !== undefined);
        assert.deepEqual([lease.expiresAt - now, lease.deadlineAt - now], [leaseMs, leftMs]);
      }
    });
  }

  test("all times of a lease move with a step of the clock", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);

    await store.shiftTimes({ after: T0 + 99_000_000, by: 3_600_000.4 });

    const deadline = T0 + TIMEOUT_MS + 3_600_000;
    const { expiresAt, deadlineAt } = await findLease({ store, workerId }, lease);
    assert.deepEqual([expiresAt, deadlineAt], [LATE + 3_600_000, deadline]);
    await endLease(store, newLeaseEnd(lease, EXPIRED), expiresAt);
    assert.equal(await beat({ store, workerId }, lease, expiresAt), "ok");
    assert.equal((await found()).startedAt, T0 + 3_600_000);
    await endLease(store, newLeaseEnd(lease, RELEASED), expiresAt);
    await store.shiftTimes({ after: 0, by: 1 });
    assert.equal((await findLease({ store, workerId }, lease)).deadlineAt, deadline);
  });
}

function pickLease({ id, leaseId }: LeasedTask, type: string) {
  return { id, leaseId, type, failures: 0, losses: 0 };
}
