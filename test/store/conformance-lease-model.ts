import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import type { LeaseOutcome, LeaseRef } from "../../src/domain/lease/lease.ts";
import type { Lease, LeaseEnd, LeaseSequel, Store } from "../../src/store/store.ts";
import {
  LEASE_MS,
  newLeaseClaim,
  newLeaseType,
  newRunEnd,
  newTaskId,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  seedWorker,
  T0,
  taskQuery,
  TIMEOUT_MS,
  webhook,
  pluck,
  postTask,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

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
