import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { parseAllowList } from "../../src/domain/address/allow-list.ts";
import type { Logger } from "../../src/domain/log.ts";
import type { AttemptResult } from "../../src/domain/webhook/delivery.ts";
import { Engine } from "../../src/run/engine.ts";
import type { RunOutcome } from "../../src/run/runner.ts";
import {
  StoreError,
  type LeaseClaim,
  type LeasedTask,
  type LeftWork,
  type Store,
} from "../../src/store/store.ts";
import { FakeCluster } from "../helpers/cluster.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import {
  claimAttempt,
  claimOne,
  LEASE_MS,
  leaseOne,
  newAttemptResult,
  newFinish,
  newPost,
  newTask,
  openTestStore,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  seedWorker,
  T0,
} from "../helpers/store.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const HOST = "127.0.0.1";
const WORKER_TYPE = { concurrency: 9, retries: 0, leaseMs: LEASE_MS, timeoutMs: 600_000 };

interface Run {
  readonly id: string;
  readonly signal: AbortSignal;
  readonly end: (outcome: RunOutcome) => void;
}

/** One node of a cluster that the test controls. Its store is a file that the other nodes use too. */
class Node {
  readonly clock = createFakeClock({ now: T0 });
  readonly cluster = new FakeCluster(this.clock);
  readonly engine: Engine;
  readonly sent: string[] = [];
  readonly runs: Run[] = [];
  /** The ids of tasks whose end it reported. */
  readonly ended: string[] = [];
  awaited: readonly string[] = [];
  /** Overrides the results of its attempts. */
  result: Partial<AttemptResult> = {};
  /** Ends the attempts in progress. */
  endSends: () => void = () => {};
  abortedSends = 0;
  /** True while runs ignore their signal. */
  areDeaf = false;

  constructor(
    store: Store,
    {
      overrides = {},
      inFlightPerHostMax = 2,
    }: { readonly overrides?: Partial<Store>; readonly inFlightPerHostMax?: number } = {},
  ) {
    const allow = parseAllowList([HOST]);
    assert(allow.kind === "allow-list");
    const gate = Promise.withResolvers<void>();
    this.endSends = gate.resolve;
    this.engine = new Engine({
      ...{ store: this.cluster.share(store, overrides), clock: this.clock, log, resources: [] },
      ...{ retentionMs: RETENTION_MS, queueDays: 30, retryAfterMs: [60_000] },
      taskEnded: (id) => void this.ended.push(id),
      ...{ awaited: () => this.awaited, accountsDisabled() {} },
      types: new Map([
        [
          "echo",
          {
            retries: 0,
            runner: {
              concurrency: 9,
              run: ({ id }, { signal }) =>
                new Promise<RunOutcome>((resolve) => {
                  const stop = (): void => {
                    if (!this.areDeaf) resolve({ kind: "aborted" });
                  };
                  if (signal.aborted) return stop();
                  signal.addEventListener("abort", stop);
                  this.runs.push({ id, signal, end: resolve });
                }),
            },
          },
        ],
      ]),
      workerTypes: new Map([["print", WORKER_TYPE]]),
      sender: {
        send: async ({ headers }) => {
          this.sent.push(headers["x-attempt"] ?? "");
          await gate.promise;
          const delivered = { outcome: "delivered", httpStatus: 200, error: null } as const;
          return newAttemptResult({ ...delivered, ...this.result });
        },
        abort: () => void this.abortedSends++,
      },
      urlPolicy: () => ({ allow: allow.list, ownNames: [], ownAddresses: [] }),
      limits: { inFlightMax: 8, inFlightPerHostMax },
    });
  }

  /** Advances the clock second by second, and waits for the effects. */
  async pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      this.clock.advance(1000);
      await turns();
    }
  }
}

async function turns(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise<void>((resolve) => setImmediate(resolve));
}

async function startNode(
  t: TestContext,
  options: ConstructorParameters<typeof Node>[1] & {
    readonly store?: Store;
    /** Other nodes at its start. */
    readonly others?: number;
  } = {},
) {
  const store = options.store ?? (await openTestStore(t));
  const node = new Node(store, options);
  const accountId = await seedAccount(store);
  const { others = 0 } = options;
  node.cluster.members = ["node-1", ...Array.from({ length: others }, (_, i) => `other-${i}`)];
  await node.engine.start();
  await turns();
  t.after(async () => {
    for (const run of node.runs) run.end({ kind: "aborted" });
    node.endSends();
    node.engine.drain();
    node.engine.abort();
    await node.engine.quiet();
  });
  return {
    ...{ node, store, accountId },
    /** Posts a task at another node. */
    async post(task = newTask()) {
      await store.insertTasks(newPost(accountId, [task]));
      return task;
    },
    /** Posts a task and ends it at another node, so that its postback is due. */
    async postDue(endedAt = T0) {
      const postback = { url: `http://${HOST}/hook`, host: HOST };
      const task = newTask({ type: "x", postback });
      await store.insertTasks(newPost(accountId, [task]));
      await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt }));
      return task;
    },
    lanes: [{ accountId, host: HOST }],
    counts: () => [node.runs.length, node.sent.length],
  };
}

/** A gate before the result of each claim. */
function gateOf() {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { opened: promise, open: resolve };
}

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
