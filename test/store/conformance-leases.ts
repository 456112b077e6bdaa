import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import fc from "fast-check";

import type { LeaseOutcome, LeaseRef } from "../../src/domain/lease/lease.ts";
import type { Task } from "../../src/domain/task/task.ts";
import type {
  BeatOutcome,
  Lease,
  LeaseEnd,
  LeaseSequel,
  LeasedTask,
  Store,
} from "../../src/store/store.ts";
import {
  LEASE_MS,
  RETENTION_MS,
  T0,
  TIMEOUT_MS,
  claimLanes,
  endLease,
  giveUpAll,
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
  seedAccount,
  seedWorker,
  taskQuery,
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

export function exerciseLeaseModel(open: OpenStore): void {
  test("random claims, heartbeats, ends and cancels of leases follow the model", async (t) => {
    const { store } = await open(t);
    const workerId = await seedWorker(store);
    const seen = new Map<string, number>();
    let runs = 0;

    const sequences = fc.array(STEP, { minLength: 30, maxLength: 90, size: "max" });
    const property = fc.asyncProperty(sequences, async (steps) => {
      const type = `type-${runs++}`;
      const accountId = await seedAccount(store, type);
      const world: World = { store, workerId, accountId, type, tasks: [], refs: [], now: T0, seen };
      for (const { kind, pick } of steps) await STEPS[kind](world, pick);
      await compare(world);
    });
    await fc.assert(property, { numRuns: 45, seed: 5 });

    // The random steps must reach every outcome.
    const wanted = ["ok new", "ok again", "lost", "cancelled", "revived", "late", "timed_out"];
    for (const what of wanted) assert((seen.get(what) ?? 0) > 5, `${what}: ${seen.get(what)}`);
  });
}

/** A task in the model. */
interface TaskModel {
  readonly id: string;
  state: "queued" | "delayed" | "running" | "completed" | "failed" | "cancelled";
  runs: number;
  failures: number;
  losses: number;
  startedAt: number | null;
  startAt: number;
  /** Claims so far, and those that were released. */
  claims: number;
  uncounted: number;
  lease: LeaseModel | null;
}

interface LeaseModel {
  readonly leaseId: string;
  readonly claimedAt: number;
  readonly deadlineAt: number;
  expiresAt: number;
  ending: LeaseEnd["how"] | null;
}

interface World {
  readonly store: Store;
  readonly workerId: number;
  readonly accountId: number;
  readonly type: string;
  readonly tasks: TaskModel[];
  /** Every lease that there ever was. */
  readonly refs: LeaseRef[];
  now: number;
  /** How often each outcome occurred in all runs. */
  readonly seen: Map<string, number>;
}

/** The writes to a task with leases; `pick` chooses the object. */
const STEPS = {
  async post({ store, accountId, type, tasks }) {
    const task = await postTask(store, accountId, { type, postback: webhook("a.example") });
    const counters = { runs: 0, failures: 0, losses: 0, claims: 0, uncounted: 0 };
    const times = { startedAt: null, startAt: 0 };
    tasks.push({ id: task.id, state: "queued", ...counters, ...times, lease: null });
  },
  async claim(world, pick) {
    const { store, workerId, type, tasks, refs, now } = world;
    const max = (pick % 2) + 1;
    const claim = newLeaseClaim(workerId, { types: [newLeaseType({ type })], max, now });
    const claimed = await store.claimLeases(claim);
    const waiting = tasks.filter(({ state }) => state === "queued");
    assert.equal(claimed.length, Math.min(max, waiting.length));
    for (const { id, leaseId, runs, failures, leaseExpiresAt } of claimed) {
      const task = waiting.find((other) => other.id === id);
      assert(task !== undefined, "a task was claimed that is not queued");
      task.claims++;
      Object.assign(task, { state: "running", runs: task.runs + 1, startedAt: now });
      const times = { claimedAt: now, deadlineAt: now + TIMEOUT_MS, expiresAt: now + LEASE_MS };
      task.lease = { leaseId, ...times, ending: null };
      const { expiresAt } = times;
      assert.deepEqual([runs, failures, leaseExpiresAt], [task.runs, task.failures, expiresAt]);
      refs.push({ id, leaseId });
    }
  },
  async beat(world, pick) {
    const ref = chosenRef(world, pick);
    const expected = beatModel(world, ref);
    const { store, workerId, now } = world;
    assert.deepEqual(await store.extendLeases({ leases: [ref], workerId, now }), [expected]);
  },
  async complete(world, pick) {
    await end(world, { ...chosenRef(world, pick), how: "completed", sequel: finish(world) });
  },
  async fail(world, pick) {
    const again = { kind: "retry", startAt: world.now + 1000 } as const;
    const sequel = pick % 3 === 0 ? finish(world, "failed") : again;
    await end(world, { ...chosenRef(world, pick), how: "failed", sequel });
  },
  async release(world, pick) {
    const sequel = { kind: "requeue", isRunCounted: false } as const;
    await end(world, { ...chosenRef(world, pick), how: "released", sequel });
  },
  async expireWhatever(world, pick) {
    const sequel = { kind: "requeue", isRunCounted: true } as const;
    await end(world, { ...chosenRef(world, pick), how: "expired", sequel });
  },
  async tick(world) {
    const { store, tasks, now } = world;
    const due = await store.listDueLeases({ now, max: 10_000 });
    const ofRun = due.filter(({ type }) => type === world.type);
    const expected = tasks.filter(
      ({ state, lease }) => state === "running" && lease?.ending === null && lease.expiresAt <= now,
    );
    assert.deepEqual(pluck(ofRun, "id").sort(), pluck(expected, "id").sort());
    for (const lease of ofRun) await end(world, decideDue(world, lease));
  },
  async cancel({ store, accountId, tasks, now }, pick) {
    const task = tasks[pick % tasks.length];
    if (task === undefined) return;
    const times = { cancelledAt: now, ...retainedUntil(now + RETENTION_MS) };
    const outcome = await store.cancelTask({ accountId, id: task.id, ...times });
    const isOver = ["completed", "failed", "cancelled"].includes(task.state);
    assert.equal(outcome === "cancelled", !isOver);
    if (!isOver) task.state = "cancelled";
  },
  async pass(world, pick) {
    world.now += [5, 500, LEASE_MS, LEASE_MS + 1, LEASE_MS, 70_000][pick % 6] ?? 0;
    await world.store.releaseDelayed({ now: world.now, max: 10_000 });
    for (const task of world.tasks) {
      if (task.state === "delayed" && task.startAt <= world.now) task.state = "queued";
    }
  },
  async restart({ store }) {
    assert.equal(await store.requeueTasks({ of: "earlier life" }), 0);
  },
} satisfies Record<string, (world: World, pick: number) => Promise<void>>;

const STEP = fc.record({
  kind: fc.oneof(
    // The table's own keys; what makes the others possible comes more often.
    fc.constantFrom(...(Object.keys(STEPS) as (keyof typeof STEPS)[])),
    fc.constantFrom("post", "claim", "pass", "tick", "tick", "beat", "beat"),
  ),
  pick: fc.nat(1000),
});

/** Mostly the newest lease of an open task; else any lease, and rarely a forged one. */
function chosenRef({ tasks, refs }: World, pick: number): LeaseRef {
  const open = tasks.filter(({ state }) => ["queued", "delayed", "running"].includes(state));
  const newest = open.flatMap(({ id, lease }) => (lease ? [{ id, leaseId: lease.leaseId }] : []));
  const among = pick % 4 > 0 && newest.length > 0 ? newest : refs;
  const ref = among[pick % among.length];
  if (ref === undefined || pick % 40 === 0) return { id: newTaskId(), leaseId: "forged" };
  return pick % 41 === 0 ? { ...ref, leaseId: "forged" } : ref;
}

function finish({ now }: World, state: "completed" | "failed" = "completed"): LeaseSequel {
  const code = state === "completed" ? 20000 : 50010;
  return {
    kind: "finish",
    ...newRunEnd({ state, code, endedAt: now, expiresAt: now + RETENTION_MS }),
  };
}

function decideDue(world: World, { id, leaseId, losses, deadlineAt }: Lease): LeaseEnd {
  if (deadlineAt <= world.now) {
    const sequel = { kind: "retry", startAt: world.now + 1000 } as const;
    return { id, leaseId, how: "timed_out", sequel };
  }
  const again = { kind: "requeue", isRunCounted: true } as const;
  return { id, leaseId, how: "expired", sequel: losses < 2 ? again : finish(world, "failed") };
}

async function end(world: World, order: LeaseEnd): Promise<void> {
  const expected = endModel(world, order);
  const { store, now } = world;
  const isDaemons = order.how === "expired" || order.how === "timed_out";
  const workerId = isDaemons ? null : world.workerId;
  const [result] = await store.endLeases({ ends: [order], workerId, now });
  const { outcome, isNew } = expected;
  const hosts = isNew && order.sequel.kind === "finish" ? ["a.example"] : [];
  assert.deepEqual([result?.outcome, result?.isNew], [outcome, isNew]);
  assert.deepEqual(pluck(result?.lanes, "host"), hosts);
}

function find(world: World, ref: LeaseRef) {
  const task = world.tasks.find(({ id }) => id === ref.id);
  const lease = task?.lease?.leaseId === ref.leaseId ? task.lease : null;
  return task === undefined || lease === null ? null : { task, lease };
}

/** The outcome of a heartbeat, and its effect on the model. */
function beatModel(world: World, ref: LeaseRef): LeaseOutcome {
  const { now } = world;
  const found = find(world, ref);
  if (found === null) return note(world, "lost");
  const { task, lease } = found;
  if (task.state === "cancelled") return note(world, "cancelled");
  const isBack = lease.ending === "expired" && task.state === "queued" && now < lease.deadlineAt;
  if (lease.ending !== null && !isBack) return note(world, "lost");
  if (isBack) revive(world, found);
  lease.expiresAt = Math.min(now + LEASE_MS, lease.deadlineAt);
  return "ok";
}

function revive(world: World, { task, lease }: NonNullable<ReturnType<typeof find>>): void {
  note(world, "revived");
  lease.ending = null;
  Object.assign(task, { state: "running", losses: task.losses - 1, startedAt: lease.claimedAt });
}

/** The outcome of the end of a lease, and its effect on the model. */
function endModel(world: World, { id, leaseId, how, sequel }: LeaseEnd) {
  const found = find(world, { id, leaseId });
  if (found === null) return { outcome: note(world, "lost"), isNew: false };
  const { task, lease } = found;
  if (task.state === "cancelled") return { outcome: note(world, "cancelled"), isNew: false };
  if (lease.ending === how) {
    note(world, "ok again");
    return { outcome: "ok", isNew: false };
  }
  const isDaemons = how === "expired" || how === "timed_out";
  const isLate = lease.ending === "expired" && task.state === "queued" && !isDaemons;
  const isHeld = lease.ending === null && (!isDaemons || lease.expiresAt <= world.now);
  if (!isLate && !isHeld) return { outcome: note(world, "lost"), isNew: false };
  note(world, isDaemons ? how : isLate ? "late" : "ok new");
  lease.ending = how;
  if (how === "expired") task.losses++;
  if (isLate) task.losses--;
  if (how === "failed") task.losses = 0;
  if (isLate && how !== "released") task.startedAt = lease.claimedAt;
  if (!isLate || how !== "released") follow(task, sequel);
  return { outcome: "ok", isNew: true };
}

function follow(task: TaskModel, sequel: LeaseSequel): void {
  if (sequel.kind === "finish") {
    task.state = sequel.state;
    return;
  }
  task.startedAt = null;
  if (sequel.kind === "retry") {
    Object.assign(task, { state: "delayed", startAt: sequel.startAt, failures: task.failures + 1 });
    return;
  }
  task.state = "queued";
  if (sequel.isRunCounted) return;
  task.runs--;
  task.uncounted++;
}

function note<What extends string>({ seen }: World, what: What): What {
  seen.set(what, (seen.get(what) ?? 0) + 1);
  return what;
}

/** The store against the model, and both against what must always be so. */
async function compare({ store, workerId, accountId, tasks }: World): Promise<void> {
  const counts = { queued: 0, running: 0, completed: 0, failed: 0, cancelled: 0 };
  for (const task of tasks) {
    const { id, lease } = task;
    const shown = task.state === "delayed" ? "queued" : task.state;
    const found = (await store.findTask({ accountId, id }))?.task;
    assert.deepEqual(
      [found?.state, found?.runs, found?.startedAt],
      [shown, task.runs, task.startedAt],
    );
    assert.equal(task.runs, task.claims - task.uncounted);
    const isEnded = shown === "completed" || shown === "failed";
    assert.equal(found?.resultText ?? null, isEnded ? "1" : null);
    const [delivery] = (await store.listDeliveries({ accountId, id })) ?? [];
    assert.equal(delivery?.attempts.length ?? 0, isEnded ? 1 : 0);
    counts[shown]++;
    if (lease !== null) await compareLease({ store, workerId }, task, lease);
  }
  const data = await store.findAccountData({ accountId, revokedMax: 0 });
  assert.deepEqual(data?.taskCounts, counts);
  const { tasks: listed } = await store.listTasks(taskQuery(accountId, { limit: 1000 }));
  assert.equal(listed.length, tasks.length);
}

async function compareLease(
  { store, workerId }: Pick<World, "store" | "workerId">,
  task: TaskModel,
  lease: LeaseModel,
): Promise<void> {
  const leases = [{ id: task.id, leaseId: lease.leaseId }];
  const [found] = await store.findLeases({ leases, workerId });
  assert.deepEqual(
    [found?.losses, found?.failures, found?.expiresAt, found?.deadlineAt],
    [task.losses, task.failures, lease.expiresAt, lease.deadlineAt],
  );
}
