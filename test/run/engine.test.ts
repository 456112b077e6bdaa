import assert from "node:assert/strict";
import { test } from "node:test";

import type { Logger } from "../../src/domain/log.ts";
import { createTrafficKeeper } from "../../src/run/upkeep.ts";
import { createDelayedTasks } from "../../src/run/watches.ts";
import { type Store, StoreError } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import {
  RETENTION_MS,
  T0,
  leaseOne,
  newTask,
  openTestStore,
  retainedUntil,
  seedWorker,
} from "../helpers/store.ts";
import { HOST, startNode, turns } from "./engine-node.ts";

test("a completion before the recovery of the start is sent once after it", async (t) => {
  const { node, store, accountId, post, lanes } = await startNode(t, { isStarted: false });
  node.endSends();
  const { id } = await post(newTask({ postback: { url: `http://${HOST}/hook`, host: HOST } }));
  const workerId = await seedWorker(store);
  const { leaseId } = await leaseOne(store, workerId);
  const outcomes = await node.engine.desk.complete(workerId, [{ id, leaseId, resultText: "1" }]);
  node.engine.wakeDeliveries(lanes);
  await turns();
  assert.deepEqual([outcomes, node.sent], [["ok"], []]);

  await node.engine.start();
  await node.engine.idle();

  assert.deepEqual(node.sent, ["1"]);
  const [delivery] = (await store.listDeliveries({ accountId, id })) ?? [];
  assert.deepEqual(
    delivery?.attempts.map(({ outcome }) => outcome),
    ["delivered"],
  );
});

test("a start sends no paused delivery", async (t) => {
  const pause = {
    accountId: null,
    host: null,
    login: null,
    since: T0,
    reason: null,
    pausedBy: "me",
  };
  const overrides = { listDeliveryPauses: () => Promise.resolve([pause]) };
  const { node, postDue } = await startNode(t, { isStarted: false, overrides });
  await postDue();
  await node.engine.start();
  await node.pass(2);
  assert.deepEqual(node.sent, []);
});

test("a release before the recovery of the start starts no run", async (t) => {
  const { node, store, post } = await startNode(t, { isStarted: false });
  const released = await post();
  const workerId = await seedWorker(store);
  const lease = await leaseOne(store, workerId);
  const queued = await post();
  assert.deepEqual(await node.engine.desk.release(workerId, [lease]), ["ok"]);
  await turns();
  assert.deepEqual(node.runs, []);

  await node.engine.start();
  await turns();

  const ids = node.runs.map(({ id }) => id);
  assert.deepEqual(new Set(ids), new Set([released.id, queued.id]));
  assert.equal(ids.length, 2);
});

test("the progress from a worker is forgotten when the task is cancelled", async (t) => {
  const { node, store, accountId, post } = await startNode(t);
  const { id } = await post();
  const workerId = await seedWorker(store);
  const { leaseId } = await leaseOne(store, workerId);
  const progress = { progress: 0.5, note: null };
  const { engine } = node;

  assert.deepEqual(await engine.desk.heartbeat(workerId, [{ id, leaseId, progress }]), ["ok"]);
  assert.deepEqual(engine.progress.of(id), progress);
  await store.cancelTask({ accountId, id, cancelledAt: T0, ...retainedUntil(T0 + RETENTION_MS) });
  engine.cancel(id);
  assert.equal(engine.progress.of(id), null);
});

/** A step of the store that rejects the operations that `isBad` names. */
function rejecting<Args, Value>(
  step: (args: Args) => Promise<Value>,
  isBad: (args: Args) => boolean,
): (args: Args) => Promise<Value> {
  return async (args) => {
    if (isBad(args)) throw new Error("a write was rejected: it cannot be stored");
    return step(args);
  };
}

test("a task whose result cannot be stored fails, and the engine continues", async (t) => {
  const store = await openTestStore(t);
  const finishTask = rejecting(store.finishTask, ({ resultText }) => resultText === '"bad"');
  const { node, accountId, post } = await startNode(t, { store, overrides: { finishTask } });
  const tasks = [await post(), await post()];
  await node.pass(1);

  node.runs.forEach(({ end }, i) =>
    end({ kind: "completed", resultText: i === 0 ? '"bad"' : "2" }),
  );
  await node.pass(1);

  const found = await Promise.all(tasks.map(({ id }) => store.findTask({ accountId, id })));
  assert.deepEqual(new Set(found.map((each) => each?.task.statusCode)), new Set([50010, 20000]));
  await post();
  await node.pass(1);
  assert.equal(node.runs.length, 3);
});

test("a worker's result that cannot be stored fails its task, and no other of the request", async (t) => {
  const store = await openTestStore(t);
  const endLeases = rejecting(store.endLeases, ({ ends }) =>
    ends.some(({ sequel }) => sequel.kind === "finish" && sequel.resultText === '"bad"'),
  );
  const { node, accountId, post } = await startNode(t, { store, overrides: { endLeases } });
  const workerId = await seedWorker(store);
  await post(newTask({ type: "print" }));
  await post(newTask({ type: "print" }));
  const gone = new AbortController().signal;
  const order = { workerId, types: ["print"], max: 2, waitMs: 30_000, gone };
  const claim = node.engine.desk.claim(order);
  await node.pass(1);
  const leases = await claim;

  const outcomes = await node.engine.desk.complete(
    workerId,
    leases.map(({ id, leaseId }, i) => ({ id, leaseId, resultText: i === 0 ? '"bad"' : "2" })),
  );

  assert.deepEqual(outcomes, ["ok", "ok"]);
  const found = await Promise.all(leases.map(({ id }) => store.findTask({ accountId, id })));
  const codes = found.map((each) => each?.task.statusCode);
  assert.deepEqual(codes, [50010, 20000]);
});

test("an attempt whose response cannot be stored is recorded without it", async (t) => {
  const store = await openTestStore(t);
  const recordAttempt = rejecting(store.recordAttempt, ({ result }) => result.address !== null);
  const { node, accountId, postDue } = await startNode(t, { store, overrides: { recordAttempt } });
  const { id } = await postDue(T0 + 1000);
  node.result = { address: HOST };
  node.endSends();

  await node.pass(1);

  const [delivery] = (await store.listDeliveries({ accountId, id })) ?? [];
  assert.equal(delivery?.state, "delivered");
});

test("claims that the store rejects are repeated", async (t) => {
  const store = await openTestStore(t);
  let areBad = true;
  const overrides = {
    claimTasks: rejecting(store.claimTasks, () => areBad),
    claimAttempts: rejecting(store.claimAttempts, () => areBad),
  };
  const { node, post, postDue, counts } = await startNode(t, { store, overrides });
  await post();
  await postDue(T0 + 1000);
  await node.pass(3);
  assert.deepEqual([counts(), node.engine.isHalted], [[0, 0], false]);
  areBad = false;

  await node.pass(61);

  assert.deepEqual(counts(), [1, 1]);
});

test("a node joins again after a fault of the store, and continues", async (t) => {
  const store = await openTestStore(t);
  let isSound = false;
  const overrides: Partial<Store> = {
    claimTasks: (claim) =>
      isSound ? store.claimTasks(claim) : Promise.reject(new StoreError("unknown", "lost")),
  };
  const { node, post } = await startNode(t, { store, overrides });
  await post();

  await node.pass(1);

  assert.deepEqual([node.cluster.rejoins.length, node.engine.isHalted], [1, false]);
  isSound = true;
  node.cluster.change({ isIn: true, self: "node-1b", members: ["node-1b"] });
  await node.pass(1);
  assert.equal(node.runs.length, 1);
});

const NOW = Date.parse("2030-01-31T09:30:15.000Z");

function newKeeper(folds: readonly ("more" | "done" | Error)[]) {
  const calls: unknown[] = [];
  const warned: string[] = [];
  const log: Logger = { debug() {}, info() {}, warn: (_, text) => warned.push(text), error() {} };
  const left = [...folds];
  const failures: unknown[] = [];
  const keeper = createTrafficKeeper({
    cluster: { holds: () => true },
    store: {
      sampleQueues: async (sample) => void calls.push(["sample", sample]),
      foldTraffic: async (fold) => {
        calls.push(["fold", fold]);
        const next = left.shift() ?? "done";
        if (next instanceof Error) throw next;
        return next;
      },
    },
    ...{ clock: createFakeClock({ now: NOW }), log },
    failed: (error) => failures.push(error),
  });
  const tick = async (): Promise<void> => {
    keeper.wake();
    await keeper.quiet();
  };
  return { keeper, tick, calls, warned, failures };
}

test("delayed tasks are queued until none is due, in batches", async () => {
  const counts = [1000, 1000, 3];
  const due: unknown[] = [];
  const released = createDelayedTasks({
    ...{ clock: createFakeClock({ now: NOW }), giveUp: new AbortController().signal },
    log: { debug() {}, info() {}, warn() {}, error() {} },
    store: { releaseDelayed: async (step) => (due.push(step), counts.shift() ?? 0) },
    released() {},
    failed: (error) => assert.fail(String(error)),
  });
  released.wake();
  await released.quiet();
  assert.deepEqual(due, Array(3).fill({ now: NOW, max: 1000 }));
});

test("a tick samples the queues, and rolls up all whole hours that are a day old", async () => {
  const { tick, calls } = newKeeper(["more", "more"]);

  await tick();

  const minutesBefore = Date.parse("2030-01-30T08:00:00.000Z");
  const fold = ["fold", { minutesBefore }];
  assert.deepEqual(calls, [["sample", { now: NOW }], fold, fold, fold]);
});

test("a full store is logged, and called again at the next tick", async () => {
  const { tick, calls, warned, failures } = newKeeper([new StoreError("full", "no space")]);

  await tick();
  await tick();

  assert.equal(calls.length, 4);
  assert.match(warned.join(), /no space/);
  assert.deepEqual(failures, []);
});

test("an error that is not the store's is reported, and no tick begins after a stop", async () => {
  const { keeper, tick, calls, failures } = newKeeper([new TypeError("a bug")]);

  await tick();
  keeper.drain();
  await tick();

  assert.equal(calls.length, 2);
  assert.match(String(failures), /a bug/);
});
