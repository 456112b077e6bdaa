import assert from "node:assert/strict";
import { test } from "node:test";

import {
  StoreError,
  type LeaseClaim,
  type LeasedTask,
  type LeftWork,
  type Store,
} from "../../src/store/store.ts";
import {
  claimAttempt,
  claimOne,
  LEASE_MS,
  leaseOne,
  newFinish,
  newPost,
  newTask,
  openTestStore,
  retainedUntil,
  RETENTION_MS,
  seedWorker,
  T0,
} from "../helpers/store.ts";
import { HOST, WORKER_TYPE, gateOf, startNode, turns } from "./engine-node.ts";

test("a task of another node runs within a second, and immediately after a notification", async (t) => {
  const { node, post } = await startNode(t);
  const { id } = await post();
  await turns();
  assert.equal(node.runs.length, 0);
  await node.pass(1);
  assert.equal(node.runs[0]?.id, id);

  const next = await post();
  node.cluster.hint({ types: ["echo"] });
  await turns();
  assert.equal(node.runs[1]?.id, next.id);
});

test("a waiting worker gets a task of another node within a second", async (t) => {
  const { node, store, post } = await startNode(t);
  const workerId = await seedWorker(store);
  const gone = new AbortController().signal;
  const claim = node.engine.desk.claim({
    ...{ workerId, types: ["print"], max: 1, waitMs: 30_000, gone },
  });
  await post(newTask({ type: "print" }));

  await node.pass(1);

  assert.equal((await claim).length, 1);
});

test("an attempt of another node is sent within a second, and immediately after a notification", async (t) => {
  const { node, postDue, lanes } = await startNode(t);
  await postDue(T0 + 1000);
  await node.pass(1);
  assert.equal(node.sent.length, 1);

  await postDue(T0 + 1000);
  node.cluster.hint({ lanes });
  await turns();
  assert.equal(node.sent.length, 2);

  // It was committed after later ones.
  node.endSends();
  await postDue(T0 - 5000);
  await node.pass(1);
  assert.equal(node.sent.length, 3);
});

test("a run stops immediately after the notification that its task was cancelled", async (t) => {
  const { node, store, accountId, post } = await startNode(t);
  const { id } = await post();
  await node.pass(1);
  const end = { accountId, id, cancelledAt: T0, ...retainedUntil(T0 + RETENTION_MS) };
  assert.equal(await store.cancelTask(end), "cancelled");

  node.cluster.hint({ ended: [id] });

  assert.deepEqual([node.runs[0]?.signal.aborted, node.ended], [true, [id]]);
});

test("a wait for a task ends within a second of its end elsewhere, or with a notification", async (t) => {
  const { node, store, post } = await startNode(t);
  await post(newTask({ type: "x" }));
  await post(newTask({ type: "x" }));
  const [first, second] = await store.claimTasks({ type: "x", max: 2, now: T0 });
  assert(first !== undefined && second !== undefined);
  node.awaited = [first.id];
  await store.finishTask(newFinish(first));
  await node.pass(1);
  assert.deepEqual(node.ended, [first.id]);

  node.cluster.hint({ ended: [second.id] });

  assert.deepEqual(node.ended, [first.id, second.id]);
});

test("runs and attempts of an ended node are claimed at its end, and searched once a minute", async (t) => {
  const calls: LeftWork[] = [];
  const store = await openTestStore(t);
  let isLeft = false;
  const overrides: Partial<Store> = {
    requeueTasks: (which) => {
      if (!("of" in which)) return store.requeueTasks(which);
      calls.push(which);
      return which.of === "ended nodes" && isLeft
        ? store.requeueTasks({ of: "earlier life" })
        : Promise.resolve(0);
    },
    listInFlight: ({ of }) =>
      of === "ended nodes" && isLeft
        ? store.listInFlight({ of: "earlier life" })
        : Promise.resolve([]),
  };
  const { node, accountId, post, postDue, counts } = await startNode(t, { store, overrides });
  await postDue();
  const attempt = await claimAttempt(store, HOST);
  await post();
  const run = await claimOne(store);
  node.cluster.change({ members: ["node-1", "node-2"] });
  await turns();
  assert.deepEqual(counts(), [0, 0]);

  isLeft = true;
  node.cluster.change({ members: ["node-1"] });
  await turns();
  isLeft = false;
  await turns();

  assert.deepEqual(counts(), [1, 1]);
  // Nothing of the changes at which nothing was left.
  assert.deepEqual(node.warnings, [{ requeued: 1, interrupted: 1 }]);
  assert.equal(node.runs[0]?.id, run.id);
  const [delivery] = (await store.listDeliveries({ accountId, id: attempt.taskId })) ?? [];
  assert.deepEqual(
    delivery?.attempts.map(({ outcome }) => outcome),
    ["interrupted", null],
  );
  const before = calls.length;
  await node.pass(60);
  assert.equal(calls.length, before + 1);
});

test("a node outside the cluster claims nothing, and continues when it has joined", async (t) => {
  const { node, store, post, postDue, lanes, counts } = await startNode(t);
  node.cluster.change({ isIn: false });
  await post();
  await postDue();
  node.engine.wake(new Set(["echo"]));
  node.engine.wakeDeliveries(lanes);
  await node.pass(3);
  assert.deepEqual(counts(), [0, 0]);
  assert.deepEqual(await store.findWaitingTypes(["echo"]), ["echo"]);

  node.cluster.change({ isIn: true, self: "node-1b", members: ["node-1b"] });
  await turns();

  assert.deepEqual(counts(), [1, 1]);
});

test("a claim that waits for a full store is not repeated outside the cluster", async (t) => {
  const calls: string[] = [];
  const refuse = (name: string) => (): Promise<never> => {
    calls.push(name);
    return Promise.reject(new StoreError("full", "no space"));
  };
  const overrides = { claimTasks: refuse("tasks"), claimAttempts: refuse("attempts") };
  const { node, post, postDue } = await startNode(t, { overrides });
  await post();
  await postDue(T0 + 1000);
  await node.pass(2);
  assert.deepEqual(new Set(calls.splice(0)), new Set(["tasks", "attempts"]));

  node.cluster.isIn = false;
  await node.pass(3);

  assert.deepEqual(calls, []);
});

test("a node that lost its membership stops its runs and attempts within a second, and forgets their progress", async (t) => {
  const { node, post, postDue, counts } = await startNode(t);
  const { id } = await post();
  await postDue();
  await node.pass(1);
  assert.deepEqual(counts(), [1, 1]);

  node.areDeaf = true;
  node.engine.progress.known.set(id, { progress: 0.5, note: null });
  // No event comes: a stopped process reads its clock when it continues.
  node.cluster.isIn = false;
  await node.pass(1);

  assert.deepEqual([node.runs[0]?.signal.aborted, node.abortedSends > 0], [true, true]);
  assert.equal(node.engine.progress.of(id), null);
});

test("claims of an incarnation that ended before their result are neither run nor sent", async (t) => {
  const store = await openTestStore(t);
  let answered = Promise.resolve();
  const overrides: Partial<Store> = {
    claimTasks: async (claim) => {
      const tasks = await store.claimTasks(claim);
      await answered;
      return tasks;
    },
    claimAttempts: async (claim) => {
      const claimed = await store.claimAttempts(claim);
      await answered;
      return claimed;
    },
    // In the store they belong to another incarnation.
    releaseTask: async () => {},
    recordAttempt: async () => {},
  };
  const { node, post, postDue, counts } = await startNode(t, { store, overrides });
  const gate = gateOf();
  answered = gate.opened;
  await post();
  await postDue();
  await node.pass(1);
  assert.deepEqual(await store.findWaitingTypes(["echo"]), [], "it was claimed");

  node.cluster.change({ self: "node-1b", members: ["node-1b"] });
  gate.open();
  await turns();

  assert.deepEqual(counts(), [0, 0]);
});

test("a claim that the next incarnation makes counts as no run", async (t) => {
  const store = await openTestStore(t);
  let begun = Promise.resolve();
  const claimed: number[] = [];
  const overrides: Partial<Store> = {
    claimTasks: async (claim) => {
      await begun;
      const tasks = await store.claimTasks(claim);
      claimed.push(...tasks.map(({ runs }) => runs));
      return tasks;
    },
  };
  const { node, post } = await startNode(t, { store, overrides });
  const gate = gateOf();
  begun = gate.opened;
  const { id } = await post();
  await node.pass(1);

  node.cluster.change({ self: "node-1b", members: ["node-1b"] });
  gate.open();
  await node.pass(1);

  const ids = node.runs.map((run) => run.id);
  assert.deepEqual([ids, claimed], [[id], [1, 1]]);
});

test("a notification of the end of a task does not drop a claim of it", async (t) => {
  const store = await openTestStore(t);
  const gate = gateOf();
  const overrides: Partial<Store> = {
    claimTasks: async (claim) => {
      const tasks = await store.claimTasks(claim);
      await gate.opened;
      return tasks;
    },
  };
  const { node, post } = await startNode(t, { store, overrides });
  const { id } = await post();
  await node.pass(1);
  node.cluster.hint({ ended: [id] });

  gate.open();
  await turns();

  const runs = node.runs.map((run) => [run.id, run.signal.aborted]);
  assert.deepEqual(runs, [[id, false]]);
});

test("a late end of a requeued run is not reported", async (t) => {
  const { node, store, accountId, post } = await startNode(t);
  const { id } = await post();
  await node.pass(1);
  // As other nodes do when they take this node for dead.
  await store.requeueTasks({ of: "earlier life" });
  const again = await claimOne(store);

  node.runs[0]?.end({ kind: "completed", resultText: "1" });
  await turns();

  assert.deepEqual(node.ended, []);
  assert.equal((await store.findTask({ accountId, id }))?.task.state, "running");
  assert.deepEqual(await store.finishTask(newFinish(again)), []);
});

test("the late end of a run changes nothing of the next run of its task", async (t) => {
  const { node, store, post } = await startNode(t);
  const { id } = await post();
  await node.pass(1);
  node.areDeaf = true;
  node.cluster.change({ isIn: false });
  await store.requeueTasks({ of: "earlier life" });
  node.cluster.change({ isIn: true, self: "node-1b", members: ["node-1b"] });
  await turns();
  const [first, second] = node.runs;
  assert(first !== undefined && second !== undefined);

  first.end({ kind: "aborted" });
  await turns();
  node.engine.cancel(id);

  assert.deepEqual([first.signal.aborted, second.signal.aborted], [true, true]);
});

test("only the node with a role does the work of the role", async (t) => {
  const store = await openTestStore(t);
  const calls: string[] = [];
  const note = <Value>(name: keyof Store, value: Value): Promise<Value> => {
    calls.push(name);
    return Promise.resolve(value);
  };
  const overrides: Partial<Store> = {
    releaseDelayed: () => note("releaseDelayed", 0),
    listOpenRedeliveryOrders: () => note("listOpenRedeliveryOrders", []),
    listDueLeases: () => note("listDueLeases", []),
    sampleQueues: () => note("sampleQueues", undefined),
    foldTraffic: () => note("foldTraffic", "done"),
    eraseExpired: () => note("eraseExpired", { looked: 0, erased: [] }),
    keepClockReading: () => note("keepClockReading", undefined),
  };
  const { node } = await startNode(t, { store, overrides });
  node.cluster.roles = [];
  calls.length = 0;
  await node.pass(61);
  assert.deepEqual(calls, []);

  for (const [role, methods] of [
    ["release", ["releaseDelayed"]],
    ["orders", ["listOpenRedeliveryOrders"]],
    ["reap", ["listDueLeases"]],
    ["sweep", ["eraseExpired", "keepClockReading"]],
    ["sample", ["sampleQueues"]],
    ["fold", ["foldTraffic"]],
  ] as const) {
    node.cluster.roles = [role];
    await node.pass(60);
    assert.deepEqual(new Set(calls.splice(0)), new Set(methods));
  }
});

test("leases that expired while the store was unreachable are resumed", async (t) => {
  const store = await openTestStore(t);
  let isReachable = true;
  const reach = <Args extends readonly unknown[], Value>(
    step: (...args: Args) => Promise<Value>,
  ): ((...args: Args) => Promise<Value>) => {
    return (...args) =>
      isReachable ? step(...args) : Promise.reject(new StoreError("unreachable", "no server"));
  };
  const overrides: Partial<Store> = {
    listDueLeases: reach(store.listDueLeases),
    findWaitingTypes: reach(store.findWaitingTypes),
    endLeases: reach(store.endLeases),
    resumeLeases: ({ now }) => store.resumeLeases({ of: "earlier life", now }),
  };
  const { node, post } = await startNode(t, { store, overrides });
  await post();
  const workerId = await seedWorker(store);
  node.cluster.roles = ["reap"];
  const lease = await leaseOne(store, workerId, node.clock.now());
  isReachable = false;
  await node.pass(LEASE_MS / 1000 + 5);
  isReachable = true;
  await node.pass(5);

  const [held] = await store.findLeases({ leases: [lease], workerId });
  assert(held !== null && held !== undefined);
  assert(held.expiresAt > node.clock.now());
  assert.deepEqual([held.losses, node.runs.length], [0, 0]);
  await node.pass(LEASE_MS / 1000);
  assert.equal(node.runs[0]?.id, lease.id, "no heartbeat came");
});

test("the store limits the leases of a type, and the end of a lease starts another claim", async (t) => {
  const claims: LeaseClaim[] = [];
  const store = await openTestStore(t);
  const overrides: Partial<Store> = {
    claimLeases: (claim) => {
      claims.push(claim);
      return store.claimLeases({ ...claim, max: 1 });
    },
    findWaitingTypes: () => Promise.resolve([]),
  };
  const { node, accountId } = await startNode(t, { store, overrides });
  const workerId = await seedWorker(store);
  const claim = (waitMs = 0) => {
    const gone = new AbortController().signal;
    return node.engine.desk.claim({ ...{ workerId, types: ["print"], max: 99, waitMs, gone } });
  };
  const tasks = Array.from({ length: 12 }, () => newTask({ type: "print" }));
  await store.insertTasks(newPost(accountId, tasks));
  const leases: LeasedTask[] = [];
  // More than the type's concurrency: this node does not count the leases of all nodes.
  for (let i = 0; i < 11; i++) {
    node.engine.wake(new Set(["print"]));
    leases.push(...(await claim()));
  }
  assert.equal(leases.length, 11);
  assert(claims.every(({ types }) => types[0]?.concurrency === WORKER_TYPE.concurrency));

  let hasTask = false;
  const waiting = claim(30_000);
  void waiting.then(() => (hasTask = true));
  await node.pass(1);
  assert.equal(hasTask, false);
  const [{ id, leaseId } = assert.fail()] = leases;
  await node.engine.desk.complete(workerId, [{ id, leaseId, resultText: "1" }]);
  assert.equal((await waiting).length, 1);
});

test("only the node with the clock's role moves schedules after the clock was set; others wait", async (t) => {
  const store = await openTestStore(t);
  const shifts: number[] = [];
  const overrides: Partial<Store> = {
    shiftTimes: (shift) => {
      shifts.push(shift.by);
      return store.shiftTimes(shift);
    },
  };
  const { node, postDue } = await startNode(t, { store, overrides });
  node.cluster.roles = [];
  node.engine.clockWasSet(60_000);
  await postDue();
  await node.pass(4);
  assert.deepEqual([shifts, node.sent.length], [[], 0]);
  await node.pass(2);
  assert.equal(node.sent.length, 1);

  node.cluster.roles = ["clock"];
  node.engine.clockWasSet(60_000);
  await turns();
  assert.deepEqual(shifts, [60_000]);
});

test("a node sends no more than its share of a host's attempts, from its start on", async (t) => {
  const { node, postDue, lanes } = await startNode(t, { inFlightPerHostMax: 1, others: 50 });
  await postDue();
  node.engine.wakeDeliveries(lanes);
  await node.pass(2);
  assert.deepEqual(node.sent, []);

  node.cluster.change({ members: ["node-1"] });
  await turns();

  assert.equal(node.sent.length, 1);
});

test("a node that drains resigns its roles and keeps its runs; after an abort it has no listener", async (t) => {
  const { node, post } = await startNode(t);
  await post();
  await node.pass(1);
  node.engine.drain();
  assert.deepEqual([node.cluster.roles, node.runs[0]?.signal.aborted], [[], false]);
  assert(node.cluster.listeners > 0);
  node.engine.abort();
  assert.equal(node.cluster.listeners, 0);
});

test("a store of one node is never polled for work of other nodes", async (t) => {
  const store = await openTestStore(t);
  const calls: string[] = [];
  const spy = (name: keyof Store) => (): never => {
    calls.push(name);
    return assert.fail(name);
  };
  const overrides: Partial<Store> = {
    ...{ findWaitingTypes: spy("findWaitingTypes"), listDueLanes: spy("listDueLanes") },
    ...{ findProgress: spy("findProgress"), noteProgress: spy("noteProgress") },
    ...{ watch: spy("watch"), cluster: store.cluster },
  };
  const { node } = await startNode(t, { store, overrides });
  await node.pass(61);
  assert.deepEqual(calls, []);
});
