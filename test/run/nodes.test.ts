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

/** One node of a cluster that is as the test says. Its store is a file that the other nodes use too. */
class Node {
  readonly clock = createFakeClock({ now: T0 });
  readonly cluster = new FakeCluster(this.clock);
  /** The store as another node has it. */
  readonly other: Store;
  readonly engine: Engine;
  readonly sent: string[] = [];
  readonly runs: Run[] = [];
  readonly told: string[] = [];
  awaited: readonly string[] = [];
  /** Overrides the results of its attempts. */
  result: Partial<AttemptResult> = {};
  /** Ends the attempts that are under way. */
  endSends: () => void = () => {};
  abortedSends = 0;
  /** True while runs do not end when they are stopped. */
  areDeaf = false;

  constructor(
    other: Store,
    {
      overrides = {},
      inFlightPerHostMax = 2,
    }: { readonly overrides?: Partial<Store>; readonly inFlightPerHostMax?: number } = {},
  ) {
    this.other = other;
    const allow = parseAllowList([HOST]);
    assert(allow.kind === "allow-list");
    const gate = Promise.withResolvers<void>();
    this.endSends = gate.resolve;
    this.engine = new Engine({
      ...{ store: this.cluster.share(other, overrides), clock: this.clock, log, resources: [] },
      ...{ retentionMs: RETENTION_MS, queueDays: 30, retryAfterMs: [60_000] },
      taskEnded: (id) => void this.told.push(id),
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

  /** Lets so many seconds pass, one by one, and everything that is settled take its effect. */
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
    /** Nodes that are there already. */
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
  return { node, store, accountId };
}

test("what another node queued runs here within a second, without a hint", async (t) => {
  const { node, store, accountId } = await startNode(t);
  const task = newTask();
  await store.insertTasks(newPost(accountId, [task]));
  await turns();
  assert.deepEqual(node.runs, []);

  await node.pass(1);

  assert.deepEqual(
    node.runs.map(({ id }) => id),
    [task.id],
  );
});

test("what another node queued runs here at once where a hint comes", async (t) => {
  const { node, store, accountId } = await startNode(t);
  await store.insertTasks(newPost(accountId, [newTask()]));

  node.cluster.hint({ types: ["echo"] });
  await turns();

  assert.equal(node.runs.length, 1);
});

test("a worker that waits here is given what another node queued, within a second", async (t) => {
  const { node, store, accountId } = await startNode(t);
  const workerId = await seedWorker(store);
  const gone = new AbortController().signal;
  const claim = node.engine.desk.claim({
    ...{ workerId, types: ["print"], max: 1, waitMs: 30_000, gone },
  });
  await store.insertTasks(newPost(accountId, [newTask({ type: "print" })]));

  await node.pass(1);

  assert.equal((await claim).length, 1);
});

test("an attempt that became due by what another node did is sent here within a second, or at once after a hint", async (t) => {
  const { node, store, accountId } = await startNode(t);
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  await store.insertTasks(newPost(accountId, [newTask({ type: "x", postback })]));
  await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt: T0 + 1000 }));
  await node.pass(1);
  assert.equal(node.sent.length, 1);
  await store.insertTasks(newPost(accountId, [newTask({ type: "x", postback })]));
  await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt: T0 + 1000 }));
  node.cluster.hint({ lanes: [{ accountId, host: HOST }] });
  await turns();
  assert.equal(node.sent.length, 2);
});

test("a run ends here when its task was cancelled at another node, at once after a hint", async (t) => {
  const { node, store, accountId } = await startNode(t);
  const task = newTask();
  await store.insertTasks(newPost(accountId, [task]));
  await node.pass(1);
  const end = { accountId, id: task.id, cancelledAt: T0, ...retainedUntil(T0 + RETENTION_MS) };
  assert.equal(await store.cancelTask(end), "cancelled");

  node.cluster.hint({ ended: [task.id] });

  assert.equal(node.runs[0]?.signal.aborted, true);
  assert.deepEqual(node.told, [task.id]);
});

test("who waits for a task is told of its end at another node, within a second or after a hint", async (t) => {
  const { node, store, accountId } = await startNode(t);
  const tasks = [newTask({ type: "x" }), newTask({ type: "x" })];
  await store.insertTasks(newPost(accountId, tasks));
  const [first, second] = await store.claimTasks({ type: "x", max: 2, now: T0 });
  assert(first !== undefined && second !== undefined);
  node.awaited = [first.id];
  await store.finishTask(newFinish(first));
  await node.pass(1);
  assert.deepEqual(node.told, [first.id]);

  node.cluster.hint({ ended: [second.id] });

  assert.deepEqual(node.told, [first.id, second.id]);
});

test("what an ended node ran and sent is taken up as soon as its end is known, and once a minute", async (t) => {
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
  const { node, accountId } = await startNode(t, { store, overrides });
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  await store.insertTasks(newPost(accountId, [newTask({ type: "x", postback })]));
  await store.finishTask(newFinish(await claimOne(store, "x")));
  const attempt = await claimAttempt(store, HOST);
  await store.insertTasks(newPost(accountId, [newTask()]));
  const run = await claimOne(store);
  node.cluster.change({ members: ["node-1", "node-2"] });
  await turns();
  assert.deepEqual([node.runs.length, node.sent.length], [0, 0]);

  isLeft = true;
  node.cluster.change({ members: ["node-1"] });
  await turns();
  isLeft = false;
  await turns();

  assert.deepEqual(
    node.runs.map(({ id }) => id),
    [run.id],
  );
  assert.equal(node.sent.length, 1);
  const deliveries = await store.listDeliveries({ accountId, id: attempt.taskId });
  assert.deepEqual(
    deliveries?.[0]?.attempts.map(({ outcome }) => outcome),
    ["interrupted", null],
  );
  const before = calls.length;
  await node.pass(60);
  assert.equal(calls.length, before + 1);
});

test("a node that is no member starts no run and sends nothing, and begins again when it has joined", async (t) => {
  const { node, store, accountId } = await startNode(t);
  node.cluster.change({ isIn: false });
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  await store.insertTasks(newPost(accountId, [newTask(), newTask({ type: "x", postback })]));
  await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt: T0 }));
  node.engine.wake(new Set(["echo"]));
  node.engine.wakeDeliveries([{ accountId, host: HOST }]);
  await node.pass(3);
  assert.deepEqual([node.runs.length, node.sent.length], [0, 0]);
  assert.deepEqual(await store.findWaitingTypes(["echo"]), ["echo"], "nor claims anything");

  node.cluster.change({ isIn: true, self: "node-1b", members: ["node-1b"] });
  await turns();

  assert.deepEqual([node.runs.length, node.sent.length], [1, 1]);
});

test("what a node was running when it was lost as a member is stopped, by its own next second at the latest", async (t) => {
  const { node, store, accountId } = await startNode(t);
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  await store.insertTasks(newPost(accountId, [newTask(), newTask({ type: "x", postback })]));
  await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt: T0 }));
  await node.pass(1);
  assert.deepEqual([node.runs.length, node.sent.length], [1, 1]);

  // Nothing tells it: the process was stopped, and looks at its clock when it goes on.
  node.cluster.isIn = false;
  await node.pass(1);

  assert.equal(node.runs[0]?.signal.aborted, true);
  assert.equal(node.abortedSends > 0, true);
});

test("what was claimed by a life that is over when the answer comes is neither run nor sent", async (t) => {
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
    // The store knows that they are another life's.
    releaseTask: async () => {},
    recordAttempt: async () => {},
  };
  const { node, accountId } = await startNode(t, { store, overrides });
  const answer = Promise.withResolvers<void>();
  answered = answer.promise;
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  await store.insertTasks(newPost(accountId, [newTask(), newTask({ type: "x", postback })]));
  await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt: T0 }));
  await node.pass(1);
  assert.deepEqual(await store.findWaitingTypes(["echo"]), [], "it was claimed");

  node.cluster.change({ self: "node-1b", members: ["node-1b"] });
  answer.resolve();
  await turns();

  assert.deepEqual([node.runs.length, node.sent.length], [0, 0]);
});

test("a claim that waited while its life ended, and was made in the next, counts as no run", async (t) => {
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
  const { node, accountId } = await startNode(t, { store, overrides });
  const gate = Promise.withResolvers<void>();
  begun = gate.promise;
  const task = newTask();
  await store.insertTasks(newPost(accountId, [task]));
  await node.pass(1);

  node.cluster.change({ self: "node-1b", members: ["node-1b"] });
  gate.resolve();
  await node.pass(1);

  assert.deepEqual(
    node.runs.map(({ id }) => id),
    [task.id],
  );
  assert.deepEqual(claimed, [1, 1]);
});

test("a claim is kept or given back, whatever another node said of its task meanwhile", async (t) => {
  const store = await openTestStore(t);
  let answered = Promise.resolve();
  const overrides: Partial<Store> = {
    claimTasks: async (claim) => {
      const tasks = await store.claimTasks(claim);
      await answered;
      return tasks;
    },
  };
  const { node, accountId } = await startNode(t, { store, overrides });
  const answer = Promise.withResolvers<void>();
  answered = answer.promise;
  const task = newTask();
  await store.insertTasks(newPost(accountId, [task]));
  await node.pass(1);
  node.cluster.hint({ ended: [task.id] });

  answered = Promise.resolve();
  answer.resolve();
  await turns();

  assert.deepEqual(
    node.runs.map(({ id, signal }) => [id, signal.aborted]),
    [[task.id, false]],
  );
});

test("an end that comes late is told to nobody who waits for the task", async (t) => {
  const { node, store, accountId } = await startNode(t);
  const task = newTask();
  await store.insertTasks(newPost(accountId, [task]));
  await node.pass(1);
  // As the other nodes do once this one is taken for dead.
  await store.requeueTasks({ of: "earlier life" });
  const again = await claimOne(store);

  node.runs[0]?.end({ kind: "completed", resultText: "1" });
  await turns();

  assert.deepEqual(node.told, []);
  assert.equal((await store.findTask({ accountId, id: task.id }))?.task.state, "running");
  assert.deepEqual(await store.finishTask(newFinish(again)), []);
});

test("a run that ends after its task was begun again here takes nothing from the new run", async (t) => {
  const { node, store, accountId } = await startNode(t);
  const task = newTask();
  await store.insertTasks(newPost(accountId, [task]));
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
  node.engine.cancel(task.id);

  assert.deepEqual([first.signal.aborted, second.signal.aborted], [true, true]);
});

test("the node that holds a role does its work, and no other node", async (t) => {
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

  const done = [
    ["release", ["releaseDelayed"]],
    ["orders", ["listOpenRedeliveryOrders"]],
    ["reap", ["listDueLeases"]],
    ["sweep", ["eraseExpired", "keepClockReading"]],
    ["sample", ["sampleQueues"]],
    ["fold", ["foldTraffic"]],
  ] as const;
  for (const [role, methods] of done) {
    node.cluster.roles = [role];
    await node.pass(60);
    assert.deepEqual(new Set(calls.splice(0)), new Set(methods));
  }
});

test("leases that ran out while nobody could reach the store are resumed and not ended", async (t) => {
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
  const { node, accountId } = await startNode(t, { store, overrides });
  await store.insertTasks(newPost(accountId, [newTask()]));
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
  assert.equal(node.runs[0]?.id, lease.id, "nobody was heard of since");
});

test("a limit of leases is the store's to keep, and one that ends here is followed by another claim", async (t) => {
  const claims: LeaseClaim[] = [];
  const store = await openTestStore(t);
  const overrides: Partial<Store> = {
    claimLeases: (claim) => {
      claims.push(claim);
      return store.claimLeases({ ...claim, max: 1 });
    },
  };
  const { node, accountId } = await startNode(t, { store, overrides });
  const workerId = await seedWorker(store);
  const claim = (waitMs = 0) => {
    const gone = new AbortController().signal;
    return node.engine.desk.claim({ ...{ workerId, types: ["print"], max: 99, waitMs, gone } });
  };
  const tasks = Array.from({ length: 12 }, () => newTask({ type: "print" }));
  await store.insertTasks(newPost(accountId, tasks));
  node.engine.wake(new Set(["print"]));
  const leases: LeasedTask[] = [];
  // More than the type's concurrency: how many are held at all nodes is not known here.
  for (let i = 0; i < 11; i++) {
    leases.push(...(await claim()));
    await node.pass(1);
  }
  assert.equal(leases.length, 11);
  assert(claims.every(({ types }) => types[0]?.concurrency === WORKER_TYPE.concurrency));

  const waiting = claim(30_000);
  await turns();
  const [{ id, leaseId } = assert.fail()] = leases;
  await node.engine.desk.complete(workerId, [{ id, leaseId, resultText: "1" }]);
  assert.equal((await waiting).length, 1);
});

test("what is scheduled moves once when the clock is set: the others wait for the node whose role it is", async (t) => {
  const store = await openTestStore(t);
  const shifts: number[] = [];
  const overrides: Partial<Store> = {
    shiftTimes: (shift) => {
      shifts.push(shift.by);
      return store.shiftTimes(shift);
    },
  };
  const { node, accountId } = await startNode(t, { store, overrides });
  node.cluster.roles = [];
  node.engine.clockWasSet(60_000);
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  await store.insertTasks(newPost(accountId, [newTask({ type: "x", postback })]));
  await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt: T0 }));
  await node.pass(4);
  assert.deepEqual([shifts, node.sent.length], [[], 0]);
  await node.pass(2);
  assert.equal(node.sent.length, 1);

  node.cluster.roles = ["clock"];
  node.engine.clockWasSet(60_000);
  await turns();
  assert.deepEqual(shifts, [60_000]);
});

test("a host that takes one attempt at a time is another node's until that has ended", async (t) => {
  const { node, store, accountId } = await startNode(t, { inFlightPerHostMax: 1 });
  const members = ["node-1", ...Array.from({ length: 50 }, (_, i) => `other-${i}`)];
  node.cluster.change({ members });
  await turns();
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  await store.insertTasks(newPost(accountId, [newTask({ type: "x", postback })]));
  await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt: T0 }));
  node.cluster.hint({ lanes: [{ accountId, host: HOST }] });
  await node.pass(2);
  assert.deepEqual(node.sent, []);

  node.cluster.change({ members: ["node-1"] });
  await turns();

  assert.equal(node.sent.length, 1);
});

test("a node that drains gives up its roles immediately, and its runs go on", async (t) => {
  const { node, store, accountId } = await startNode(t);
  await store.insertTasks(newPost(accountId, [newTask()]));
  await node.pass(1);
  node.engine.drain();
  assert.deepEqual(node.cluster.roles, []);
  assert.equal(node.runs[0]?.signal.aborted, false);
});

test("a node that starts among others sends no more than its share from the beginning", async (t) => {
  const store = await openTestStore(t);
  const { node, accountId } = await startNode(t, { store, inFlightPerHostMax: 1, others: 50 });
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  await store.insertTasks(newPost(accountId, [newTask({ type: "x", postback })]));
  await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt: T0 }));
  node.engine.wakeDeliveries([{ accountId, host: HOST }]);
  await node.pass(1);
  assert.deepEqual(node.sent, []);
});

test("a node that stops hears of no other any more", async (t) => {
  const { node } = await startNode(t);
  assert(node.cluster.listeners > 0);
  node.engine.drain();
  node.engine.abort();
  assert.equal(node.cluster.listeners, 0);
});

test("a store of one node is asked for nothing that other nodes may have done", async (t) => {
  const store = await openTestStore(t);
  const asked: string[] = [];
  const spy = (name: keyof Store) => (): never => {
    asked.push(name);
    return assert.fail(name);
  };
  const overrides: Partial<Store> = {
    ...{ findWaitingTypes: spy("findWaitingTypes"), listDueLanes: spy("listDueLanes") },
    ...{ findProgress: spy("findProgress"), noteProgress: spy("noteProgress") },
    ...{ watch: spy("watch"), cluster: store.cluster },
  };
  const { node } = await startNode(t, { store, overrides });
  await node.pass(61);
  assert.deepEqual(asked, []);
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

test("a task whose result cannot be stored fails, and the engine goes on", async (t) => {
  const store = await openTestStore(t);
  const finishTask = rejecting(store.finishTask, ({ resultText }) => resultText === '"bad"');
  const { node, accountId } = await startNode(t, { store, overrides: { finishTask } });
  const tasks = [newTask(), newTask()];
  await store.insertTasks(newPost(accountId, tasks));
  await node.pass(1);

  node.runs.forEach(({ end }, i) =>
    end({ kind: "completed", resultText: i === 0 ? '"bad"' : "2" }),
  );
  await node.pass(1);

  const found = await Promise.all(tasks.map(({ id }) => store.findTask({ accountId, id })));
  assert.deepEqual(new Set(found.map((each) => each?.task.statusCode)), new Set([50010, 20000]));
  await store.insertTasks(newPost(accountId, [newTask()]));
  await node.pass(1);
  assert.equal(node.runs.length, 3);
});

test("a worker's result that cannot be stored fails its task, and the others of its request complete", async (t) => {
  const store = await openTestStore(t);
  const endLeases = rejecting(store.endLeases, ({ ends }) =>
    ends.some(({ sequel }) => sequel.kind === "finish" && sequel.resultText === '"bad"'),
  );
  const { node, accountId } = await startNode(t, { store, overrides: { endLeases } });
  const workerId = await seedWorker(store);
  const tasks = [newTask({ type: "print" }), newTask({ type: "print" })];
  await store.insertTasks(newPost(accountId, tasks));
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
  assert.deepEqual(
    found.map((each) => each?.task.statusCode),
    [50010, 20000],
  );
});

test("an attempt whose response cannot be stored is recorded without it", async (t) => {
  const store = await openTestStore(t);
  const recordAttempt = rejecting(store.recordAttempt, ({ result }) => result.address !== null);
  const { node, accountId } = await startNode(t, { store, overrides: { recordAttempt } });
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  const task = newTask({ type: "x", postback });
  await store.insertTasks(newPost(accountId, [task]));
  await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt: T0 + 1000 }));
  node.result = { address: HOST };
  node.endSends();

  await node.pass(1);

  const [delivery] = (await store.listDeliveries({ accountId, id: task.id })) ?? [];
  assert.equal(delivery?.state, "delivered");
});

test("claims that the store rejects are tried again", async (t) => {
  const store = await openTestStore(t);
  let areBad = true;
  const overrides = {
    claimTasks: rejecting(store.claimTasks, () => areBad),
    claimAttempts: rejecting(store.claimAttempts, () => areBad),
  };
  const { node, accountId } = await startNode(t, { store, overrides });
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  await store.insertTasks(newPost(accountId, [newTask(), newTask({ type: "x", postback })]));
  await store.finishTask(newFinish(await claimOne(store, "x"), { endedAt: T0 + 1000 }));
  await node.pass(3);
  assert.deepEqual([node.runs.length, node.sent.length], [0, 0]);
  assert.equal(node.engine.isHalted, false);
  areBad = false;

  await node.pass(61);

  assert.deepEqual([node.runs.length, node.sent.length], [1, 1]);
});

test("a node whose engine meets a fault of the store joins again, and goes on", async (t) => {
  const store = await openTestStore(t);
  let isSound = false;
  const overrides: Partial<Store> = {
    claimTasks: (claim) =>
      isSound ? store.claimTasks(claim) : Promise.reject(new StoreError("unknown", "lost")),
  };
  const { node, accountId } = await startNode(t, { store, overrides });
  await store.insertTasks(newPost(accountId, [newTask()]));

  await node.pass(1);

  assert.equal(node.cluster.rejoins.length, 1);
  assert.equal(node.engine.isHalted, false);
  isSound = true;
  node.cluster.change({ isIn: true, self: "node-1b", members: ["node-1b"] });
  await node.pass(1);
  assert.equal(node.runs.length, 1);
});
