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
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  seedWorker,
  T0,
  TIMEOUT_MS,
  webhook,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

const REQUEUED = { kind: "requeue", isRunCounted: true } as const;
const RELEASED = { how: "released", sequel: { kind: "requeue", isRunCounted: false } } as const;
const RETRIED = { how: "failed", sequel: { kind: "retry", startAt: T0 + 60_000 } } as const;
const EXPIRED = { how: "expired", sequel: REQUEUED } as const;
/** When a lease that was claimed at {@link T0} has run out. */
const LATE = T0 + LEASE_MS;

/** An account, a worker and one queued task with a postback. */
async function openWorld(t: TestContext, open: OpenStore) {
  const { store, again } = await open(t);
  const [accountId, workerId] = [await seedAccount(store), await seedWorker(store)];
  const task = newTask({ inputText: "[1]", postback: webhook("a.example") });
  await store.insertTasks(newPost(accountId, [task]));
  const found = async (): Promise<Task> => {
    const known = await store.findTask({ accountId, id: task.id });
    assert(known !== null);
    return known.task;
  };
  return { store, again, accountId, workerId, task, found };
}

/** A store, and the worker that asks it. */
interface Asker {
  readonly store: Store;
  readonly workerId: number;
}

async function findLease({ store, workerId }: Asker, ref: LeaseRef): Promise<Lease> {
  const [lease] = await store.findLeases({ leases: [ref], workerId });
  assert(lease !== undefined && lease !== null);
  return lease;
}

async function beat(
  { store, workerId }: Asker,
  lease: LeaseRef,
  now: number,
): Promise<BeatOutcome | undefined> {
  return (await store.extendLeases({ leases: [lease], workerId, now }))[0];
}

/** What each way to end a lease, and a heartbeat, is answered. */
async function answersTo(asker: Asker, lease: LeaseRef, now = T0 + 1000) {
  const kinds: readonly Partial<LeaseEnd>[] = [{}, RETRIED, RELEASED, EXPIRED];
  const ends = [];
  for (const kind of kinds) ends.push(await endLease(asker.store, newLeaseEnd(lease, kind), now));
  assert.deepEqual(
    ends.map(({ isNew, lanes }) => [isNew, lanes.length]),
    ends.map(() => [false, 0]),
  );
  return [await beat(asker, lease, now), ...ends.map(({ outcome }) => outcome)];
}

/** The part of the conformance suite that is about what a lease is, and what its worker ends it with. */
export function exerciseLeases(open: OpenStore): void {
  test("starts tasks for a worker, each with a lease of its own that ends with the timeout at the latest", async (t) => {
    const { store, accountId, workerId, task, found } = await openWorld(t, open);
    const other = newTask({ type: "quick", tag: "t" });
    await store.insertTasks(newPost(accountId, [other]));
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

  test("completes a task whole: result, counts, first attempts; and once, however often it is told", async (t) => {
    const { store, accountId, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    const sequel = {
      kind: "finish",
      ...newRunEnd({ resultText: "[2]", endedAt: T0 + 7 }),
    } as const;
    const end = newLeaseEnd(lease, { sequel });

    assert.deepEqual(await endLease(store, end), {
      ...{ outcome: "ok", isNew: true, lanes: [{ accountId, host: "a.example" }] },
    });
    const other = newLeaseEnd(lease, { sequel: { ...sequel, resultText: "[3]", endedAt: T0 + 8 } });
    for (const again of [end, other]) {
      const result = await endLease(store, again);
      assert.deepEqual(result, { outcome: "ok", isNew: false, lanes: [] });
    }

    const ended = await found();
    assert.deepEqual(
      [ended.state, ended.resultText, ended.startedAt, ended.completedAt, ended.expiresAt],
      ["completed", "[2]", T0, T0 + 7, T0 + 7 + RETENTION_MS],
    );
    assert.equal((await claimLanes(store, ["a.example"], { now: T0 + 7 })).length, 1);
    const data = await store.findAccountData({ accountId, revokedMax: 0 });
    assert.deepEqual(data?.taskCounts, {
      ...{ queued: 0, running: 0, completed: 1, failed: 0, cancelled: 0 },
    });
    assert.deepEqual(await answersTo({ store, workerId }, lease), [
      "lost",
      "ok",
      "lost",
      "lost",
      "lost",
    ]);
  });

  test("fails a task for good, with its error, and once", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    const error = { state: "failed", code: 50010, resultText: null, errorText: "{}" } as const;
    const end = newLeaseEnd(lease, {
      how: "failed",
      sequel: { kind: "finish", ...newRunEnd(error) },
    });

    assert.equal((await endLease(store, end)).isNew, true);

    const { state, statusCode, errorText } = await found();
    assert.deepEqual([state, statusCode, errorText], ["failed", 50010, "{}"]);
    assert.deepEqual(await answersTo({ store, workerId }, lease), [
      "lost",
      "lost",
      "ok",
      "lost",
      "lost",
    ]);
  });

  test("runs a failed task again at its time, and answers the same until somebody has claimed it", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);

    assert.equal((await endLease(store, newLeaseEnd(lease, RETRIED))).isNew, true);

    const answers = ["lost", "lost", "ok", "lost", "lost"];
    const waiting = await found();
    assert.deepEqual([waiting.state, waiting.startedAt, waiting.runs], ["queued", null, 1]);
    assert.deepEqual(await answersTo({ store, workerId }, lease), answers);
    assert.deepEqual(await store.claimLeases(newLeaseClaim(workerId)), []);
    assert.equal(await store.releaseDelayed({ now: T0 + 60_000, max: 9 }), 1);
    assert.deepEqual(await answersTo({ store, workerId }, lease), answers);
    const next = await leaseOne(store, workerId, T0 + 60_000);
    assert.deepEqual([next.runs, next.failures], [2, 1]);
    assert.deepEqual(await answersTo({ store, workerId }, lease), answers.fill("lost"));
  });

  test("puts a released task back at once, and its run does not count", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);

    assert.equal((await endLease(store, newLeaseEnd(lease, RELEASED))).isNew, true);

    const { state, startedAt, runs } = await found();
    assert.deepEqual([state, startedAt, runs], ["queued", null, 0]);
    assert.deepEqual(await answersTo({ store, workerId }, lease), [
      "lost",
      "lost",
      "lost",
      "ok",
      "lost",
    ]);
    assert.equal((await leaseOne(store, workerId)).runs, 1);
  });

  test("answers each item of a batch for itself and in its order, what stands in it twice as well", async (t) => {
    const { store, accountId, workerId, task } = await openWorld(t, open);
    const more = [newTask(), newTask()];
    await store.insertTasks(newPost(accountId, more));
    const [a, b, c] = await store.claimLeases(newLeaseClaim(workerId));
    assert(a !== undefined && b !== undefined && c !== undefined);
    const forged = { id: task.id, leaseId: b.leaseId };
    const unknown = { id: newTaskId(), leaseId: a.leaseId };
    const ends = [unknown, c, forged, a, c].map((ref) => newLeaseEnd(ref));

    const results = await store.endLeases({
      ends: [...ends, newLeaseEnd(a, RELEASED)],
      ...{ workerId, now: T0 + 1000 },
    });
    const beats = await store.extendLeases({
      leases: [unknown, b, forged, a, b],
      ...{ workerId, now: T0 + 1000 },
    });

    assert.deepEqual(
      results.map(({ outcome, isNew }) => [outcome, isNew]),
      [
        ["lost", false],
        ["ok", true],
        ["lost", false],
        ["ok", true],
        ["ok", false],
        ["lost", false],
      ],
    );
    assert.deepEqual(beats, ["lost", "ok", "lost", "lost", "ok"]);
    assert.deepEqual(await store.endLeases({ ends: [], workerId, now: T0 }), []);
    assert.deepEqual(await store.extendLeases({ leases: [], workerId, now: T0 }), []);
    assert.deepEqual(await store.findLeases({ leases: [], workerId }), []);
  });

  test("tells the newest lease of a cancelled task so, and any older one that it is lost", async (t) => {
    const { store, accountId, workerId, task } = await openWorld(t, open);
    const old = await leaseOne(store, workerId);
    await endLease(store, newLeaseEnd(old, EXPIRED), LATE);
    const lease = await leaseOne(store, workerId, LATE);
    const cancel = { accountId, id: task.id, cancelledAt: LATE, ...retainedUntil(LATE) };

    assert.equal(await store.cancelTask(cancel), "cancelled");

    assert.deepEqual(await answersTo({ store, workerId }, lease), Array(5).fill("cancelled"));
    assert.deepEqual(await answersTo({ store, workerId }, old), Array(5).fill("lost"));
    assert.deepEqual(await store.listDueLeases({ now: LATE * 2, max: 9 }), []);
    assert.deepEqual(await store.resumeLeases({ of: "earlier life", now: LATE }), []);
  });

  test("tells so too when the task was cancelled after its lease had ended", async (t) => {
    for (const how of [EXPIRED, RELEASED, RETRIED]) {
      const { store, accountId, workerId, task } = await openWorld(t, open);
      const lease = await leaseOne(store, workerId);
      await endLease(store, newLeaseEnd(lease, how), LATE);
      const cancel = { accountId, id: task.id, cancelledAt: LATE, ...retainedUntil(LATE) };
      assert.equal(await store.cancelTask(cancel), "cancelled");

      assert.deepEqual(
        await answersTo({ store, workerId }, lease, LATE),
        Array(5).fill("cancelled"),
        how.how,
      );
    }
  });

  test("knows no lease of another worker, whatever has become of it, but the daemon ends any", async (t) => {
    const { store, accountId, workerId, task, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    const other = await seedWorker(store, "other");
    const ways: readonly Partial<LeaseEnd>[] = [{}, RETRIED, RELEASED, EXPIRED];
    const ends = ways.map((way) => newLeaseEnd(lease, way));
    const lost = ways.map(() => ({ outcome: "lost", isNew: false, lanes: [] }));
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

  // SQLite gives the number of an erased row to the next one; PostgreSQL does not.
  test("erases a lease with its task, and never lets an old one touch the task that comes after", async (t) => {
    const { store, accountId, workerId } = await openWorld(t, open);
    const old = await leaseOne(store, workerId);
    await endLease(store, newLeaseEnd(old));
    await giveUpAll(store);
    assert.equal((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 9 })).looked, 1);
    assert.deepEqual(await store.findLeases({ leases: [old], workerId }), [null]);
    await store.insertTasks(newPost(accountId, [newTask()]));
    const lease = await leaseOne(store, workerId);
    assert.equal((await findLease({ store, workerId }, lease)).losses, 0);

    assert.deepEqual(await answersTo({ store, workerId }, old), Array(5).fill("lost"));
    const mixed = { id: lease.id, leaseId: old.leaseId };
    assert.deepEqual(await answersTo({ store, workerId }, mixed), Array(5).fill("lost"));

    assert.equal((await endLease(store, newLeaseEnd(lease))).isNew, true);
  });
}

function pickLease({ id, leaseId }: LeasedTask, type: string) {
  return { id, leaseId, type, failures: 0, losses: 0 };
}

/** The part of the conformance suite that is about heartbeats, restarts and clocks. */
export function exerciseHeldLeases(open: OpenStore): void {
  test("a heartbeat makes a lease hold for its full time from then on, never beyond the timeout", async (t) => {
    const { store, workerId } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    const expiry = async (now: number) => {
      assert.equal(await beat({ store, workerId }, lease, now), "ok");
      return (await findLease({ store, workerId }, lease)).expiresAt;
    };

    assert.equal(await expiry(T0 + 10_000), T0 + 10_000 + LEASE_MS);
    // Nobody has ended it yet although it has run out.
    assert.equal(await expiry(T0 + 65_000), T0 + 65_000 + LEASE_MS);
    assert.equal(await expiry(T0 + 80_000), T0 + TIMEOUT_MS);
    assert.equal(await expiry(T0 + 200_000), T0 + TIMEOUT_MS);
  });

  test("lists leases that have run out, the earliest first and no more than asked for", async (t) => {
    const { store, accountId, workerId } = await openWorld(t, open);
    await store.insertTasks(newPost(accountId, [newTask(), newTask(), newTask()]));
    const [a, b, c, d] = await store.claimLeases(newLeaseClaim(workerId));
    assert(a !== undefined && b !== undefined && c !== undefined && d !== undefined);
    for (const [i, lease] of [c, a, b].entries()) await beat({ store, workerId }, lease, T0 + i);
    await endLease(store, newLeaseEnd(d));
    const due = async (now: number, max = 9) => {
      const leases = await store.listDueLeases({ now, max });
      return leases.map(
        ({ leaseId }) => "abcd"[[a, b, c, d].findIndex((x) => x.leaseId === leaseId)],
      );
    };

    assert.deepEqual(await due(LATE - 1), []);
    assert.deepEqual(await due(LATE), ["c"]);
    assert.deepEqual(await due(LATE + 9), ["c", "a", "b"]);
    assert.deepEqual(await due(LATE + 9, 2), ["c", "a"]);
    const [first] = await store.listDueLeases({ now: LATE, max: 1 });
    assert.deepEqual(first, await findLease({ store, workerId }, c));
  });

  test("a start puts back what the daemon itself ran, and leaves to workers what they hold", async (t) => {
    const { store, again, accountId, workerId } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    const own = newTask();
    await store.insertTasks(newPost(accountId, [own]));
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

  test("at a start leases hold for their full time, and for no longer when the clock was set back", async (t) => {
    const { store, workerId } = await openWorld(t, open);
    await leaseOne(store, workerId);
    const times = async (now: number) =>
      (await store.resumeLeases({ of: "earlier life", now })).map(({ expiresAt, deadlineAt }) => [
        expiresAt - now,
        deadlineAt - now,
      ]);

    assert.deepEqual(await times(T0 + 50_000), [[LEASE_MS, TIMEOUT_MS - 50_000]]);
    assert.deepEqual(await times(T0 - 9_000_000), [[LEASE_MS, TIMEOUT_MS]]);
    assert.deepEqual(await times(T0 - 8_950_000), [[LEASE_MS, TIMEOUT_MS - 50_000]]);
    // The timeout was over while nobody could be heard, and its worker may have finished in time.
    assert.deepEqual(await times(T0), [[LEASE_MS, LEASE_MS]]);
    assert.deepEqual(await times(T0 - 9_000_000), [[LEASE_MS, TIMEOUT_MS]]);
  });

  test("at a start no lease holds beyond its timeout", async (t) => {
    const { store, workerId } = await openWorld(t, open);
    await store.claimLeases(newLeaseClaim(workerId, { types: [newLeaseType({ timeoutMs: 9 })] }));

    for (const now of [T0 + 3, T0 + 999, T0 - 999]) {
      const [lease] = await store.resumeLeases({ of: "earlier life", now });
      assert.deepEqual([lease?.expiresAt, lease?.deadlineAt], [now + 9, now + 9]);
    }
  });

  test("all times of a lease move with a clock that was set", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);

    await store.shiftTimes({ after: T0 + 99_000_000, by: 3_600_000.4 });

    const { expiresAt, deadlineAt } = await findLease({ store, workerId }, lease);
    assert.deepEqual([expiresAt, deadlineAt], [LATE + 3_600_000, T0 + TIMEOUT_MS + 3_600_000]);
    const now = expiresAt;
    await endLease(store, newLeaseEnd(lease, EXPIRED), now);
    assert.equal(await beat({ store, workerId }, lease, now), "ok");
    assert.equal((await found()).startedAt, T0 + 3_600_000);
    await endLease(store, newLeaseEnd(lease, RELEASED), now);
    await store.shiftTimes({ after: 0, by: 1 });
    assert.equal(
      (await findLease({ store, workerId }, lease)).deadlineAt,
      T0 + TIMEOUT_MS + 3_600_000,
    );
  });
}

/** The part of the conformance suite that is about leases whose worker was not heard in time. */
export function exerciseEndedLeases(open: OpenStore): void {
  test("expires only what has run out; the task is queued again and the run counts", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    const end = newLeaseEnd(lease, EXPIRED);

    for (const how of ["expired", "timed_out"] as const) {
      const early = await endLease(store, { ...end, how }, LATE - 1);
      assert.deepEqual([early.outcome, early.isNew], ["lost", false]);
    }
    assert.equal((await findLease({ store, workerId }, lease)).losses, 0);
    assert.equal((await endLease(store, end, LATE)).isNew, true);
    assert.equal((await endLease(store, end, LATE)).isNew, false);

    const { state, startedAt, runs } = await found();
    assert.deepEqual([state, startedAt, runs], ["queued", null, 1]);
    const next = await leaseOne(store, workerId, LATE);
    assert.equal(next.runs, 2);
    assert.equal((await findLease({ store, workerId }, next)).losses, 1);
  });

  test("counts how often a task's leases ran out, over all of them", async (t) => {
    const { store, accountId, workerId } = await openWorld(t, open);
    for (let losses = 0; losses < 4; losses++) {
      const lease = await leaseOne(store, workerId);
      assert.equal((await findLease({ store, workerId }, lease)).losses, losses);
      await endLease(store, newLeaseEnd(lease, EXPIRED), LATE);
    }
    const lease = await leaseOne(store, workerId);
    const sequel = { kind: "finish", ...newRunEnd({ state: "failed", code: 50010 }) } as const;

    const end = await endLease(store, newLeaseEnd(lease, { how: "expired", sequel }), LATE);

    assert.deepEqual(end, {
      outcome: "ok",
      isNew: true,
      lanes: [{ accountId, host: "a.example" }],
    });
    assert.deepEqual(await answersTo({ store, workerId }, lease, LATE), [
      "lost",
      "lost",
      "lost",
      "lost",
      "ok",
    ]);
  });

  test("a late heartbeat gives the task back while nobody else has it, as if it had come in time", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    await endLease(store, newLeaseEnd(lease, EXPIRED), LATE);

    assert.equal(await beat({ store, workerId }, lease, LATE + 5), "ok");

    const { state, statusCode, startedAt, runs } = await found();
    assert.deepEqual([state, statusCode, startedAt, runs], ["running", 40601, T0, 1]);
    const { losses, expiresAt } = await findLease({ store, workerId }, lease);
    // It did not vanish.
    assert.deepEqual([losses, expiresAt], [0, LATE + 5 + LEASE_MS]);
    assert.deepEqual(await store.claimLeases(newLeaseClaim(workerId)), []);
    assert.equal((await endLease(store, newLeaseEnd(lease, EXPIRED), LATE + 5)).outcome, "lost");
    assert.equal((await endLease(store, newLeaseEnd(lease))).isNew, true);
  });

  test("a heartbeat after the timeout brings nothing back", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    await endLease(store, newLeaseEnd(lease, EXPIRED), LATE);

    assert.equal(await beat({ store, workerId }, lease, T0 + TIMEOUT_MS), "lost");
    assert.equal((await found()).state, "queued");
    assert.equal(await beat({ store, workerId }, lease, T0 + TIMEOUT_MS - 1), "ok");
  });

  test("a late completion is taken while nobody else has the task, and shows when the run began", async (t) => {
    const { store, accountId, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    await endLease(store, newLeaseEnd(lease, EXPIRED), LATE);

    // After the timeout too: the result is there, and a run anew would only cost.
    const result = await endLease(store, newLeaseEnd(lease), T0 + 2 * TIMEOUT_MS);

    assert.deepEqual(result, {
      outcome: "ok",
      isNew: true,
      lanes: [{ accountId, host: "a.example" }],
    });
    const { state, startedAt, runs } = await found();
    assert.deepEqual([state, startedAt, runs], ["completed", T0, 1]);
    assert.deepEqual(await store.claimLeases(newLeaseClaim(workerId)), []);
    const data = await store.findAccountData({ accountId, revokedMax: 0 });
    assert.deepEqual([data?.taskCounts.queued, data?.taskCounts.completed], [0, 1]);
  });

  test("a late failure counts as one, and a late release leaves the task in the queue", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const failed = await leaseOne(store, workerId);
    await endLease(store, newLeaseEnd(failed, EXPIRED), LATE);

    assert.equal((await endLease(store, newLeaseEnd(failed, RETRIED), LATE)).isNew, true);

    assert.deepEqual(await store.claimLeases(newLeaseClaim(workerId)), []);
    await store.releaseDelayed({ now: T0 + 60_000, max: 9 });
    const released = await leaseOne(store, workerId);
    assert.deepEqual(
      [released.failures, (await findLease({ store, workerId }, released)).losses],
      [1, 0],
    );
    await endLease(store, newLeaseEnd(released, EXPIRED), LATE);
    assert.equal((await endLease(store, newLeaseEnd(released, RELEASED), LATE)).isNew, true);
    assert.equal((await endLease(store, newLeaseEnd(released, RELEASED), LATE)).isNew, false);
    const { state, runs } = await found();
    assert.deepEqual([state, runs], ["queued", 2]);
    assert.equal((await leaseOne(store, workerId)).runs, 3);
  });

  test("losses count in a row: a failure that the worker tells begins anew", async (t) => {
    const { store, workerId } = await openWorld(t, open);
    for (let i = 0; i < 3; i++) {
      await endLease(store, newLeaseEnd(await leaseOne(store, workerId), EXPIRED), LATE);
    }
    const lease = await leaseOne(store, workerId);
    assert.equal((await findLease({ store, workerId }, lease)).losses, 3);

    await endLease(store, newLeaseEnd(lease, RETRIED));
    await store.releaseDelayed({ now: T0 + 60_000, max: 9 });

    assert.equal((await findLease({ store, workerId }, await leaseOne(store, workerId))).losses, 0);
  });

  test("whoever comes late finds the lease lost once another has claimed the task", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const old = await leaseOne(store, workerId);
    await endLease(store, newLeaseEnd(old, EXPIRED), LATE);
    const lease = await leaseOne(store, workerId, LATE);

    assert.deepEqual(await answersTo({ store, workerId }, old, LATE), Array(5).fill("lost"));
    await endLease(store, newLeaseEnd(lease, EXPIRED), LATE + LEASE_MS);
    assert.deepEqual(await answersTo({ store, workerId }, old, LATE), Array(5).fill("lost"));
    assert.equal((await found()).state, "queued");
  });

  test("whoever comes late finds the lease lost once the daemon itself has started the task", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const lease = await leaseOne(store, workerId);
    await endLease(store, newLeaseEnd(lease, EXPIRED), LATE);
    await store.claimTasks({ type: "echo", max: 1, now: LATE });

    assert.deepEqual(await answersTo({ store, workerId }, lease, LATE), [
      "lost",
      "lost",
      "lost",
      "lost",
      "ok",
    ]);
    assert.equal((await found()).state, "running");
  });

  test("a run that timed out is over: it is run again or fails, and nothing brings it back", async (t) => {
    const { store, workerId, found } = await openWorld(t, open);
    const retried = await leaseOne(store, workerId);
    const timedOut = { how: "timed_out", sequel: RETRIED.sequel } as const;
    const over = T0 + TIMEOUT_MS;

    assert.equal((await endLease(store, newLeaseEnd(retried, timedOut), over)).isNew, true);

    assert.deepEqual(await answersTo({ store, workerId }, retried, over), Array(5).fill("lost"));
    assert.equal((await found()).state, "queued");
    await store.releaseDelayed({ now: over, max: 9 });
    const lease = await leaseOne(store, workerId);
    const { losses, failures } = await findLease({ store, workerId }, lease);
    assert.deepEqual([losses, failures], [0, 1]);
    const final = { kind: "finish", ...newRunEnd({ state: "failed", code: 50401 }) } as const;
    await endLease(store, newLeaseEnd(lease, { how: "timed_out", sequel: final }), over);
    assert.equal((await found()).statusCode, 50401);
    assert.deepEqual(await answersTo({ store, workerId }, lease, over), Array(5).fill("lost"));
  });
}
