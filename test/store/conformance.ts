import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";

import { ANY_TASK } from "../../src/domain/task/task-search.ts";
import type { AttemptRef } from "../../src/store/store.ts";
import { StoreError, type Store } from "../../src/store/store.ts";
import { deliveryFilter, newOrder } from "../helpers/delivery.ts";
import {
  giveUpAll,
  newAccessRequest,
  newAccount,
  newAttemptResult,
  newExpiry,
  newFinish,
  newKeyToStore,
  newLeaseClaim,
  newPost,
  newReading,
  newRefusedTask,
  newStale,
  newTask,
  newTaskCancels,
  newTaskId,
  newWorker,
  taskQuery,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  seedDelivery,
  seedFinished,
  T0,
  webhook,
} from "../helpers/store.ts";
import { exerciseAccess } from "./conformance-access.ts";
import { exerciseAccountData, exerciseAccounts, exerciseSecrets } from "./conformance-accounts.ts";
import { exerciseAttemptList } from "./conformance-attempt-list.ts";
import { exerciseAudit, newEntry } from "./conformance-audit.ts";
import { exerciseClock } from "./conformance-clock.ts";
import { exerciseCluster } from "./conformance-cluster.ts";
import { exerciseCounts } from "./conformance-counts.ts";
import { exerciseDeliveries, exerciseRedelivery } from "./conformance-deliveries.ts";
import { exerciseDeliveryLog } from "./conformance-delivery-log.ts";
import { exerciseDeliveryPauses } from "./conformance-delivery-pauses.ts";
import { exerciseFairness } from "./conformance-fairness.ts";
import { exerciseHolds } from "./conformance-holds.ts";
import { exerciseHostTraffic } from "./conformance-host-traffic.ts";
import { exerciseIdempotency } from "./conformance-idempotency.ts";
import { exerciseLeaseModel } from "./conformance-lease-model.ts";
import { exerciseEndedLeases, exerciseHeldLeases, exerciseLeases } from "./conformance-leases.ts";
import { exerciseCancelling, exerciseListing, exerciseQueue } from "./conformance-listing.ts";
import { exerciseQueueExpiry } from "./conformance-queue.ts";
import { exerciseQuotas } from "./conformance-quotas.ts";
import { exerciseOrders, exerciseShift } from "./conformance-redelivery.ts";
import { exerciseSearch } from "./conformance-search.ts";
import { exerciseKeptSecrets } from "./conformance-secrets.ts";
import { exerciseSessions } from "./conformance-sessions.ts";
import { exercisePosting, exerciseReady, exerciseRunning } from "./conformance-tasks.ts";
import { exerciseTimeline } from "./conformance-timeline.ts";
import { exerciseOverviews, exerciseTraffic, exerciseWaiting } from "./conformance-traffic.ts";
import { exerciseWatch } from "./conformance-watch.ts";
import { exerciseWorkers } from "./conformance-workers.ts";

/** A store that a test opened; it is closed after the test. */
export interface OpenedStore {
  readonly store: Store;
  /** Opens the same data once more, beside the first store or after its close. */
  again(options?: StoreLimits): Promise<Store>;
}

/** Smaller limits than usual, so that a test comes to them soon. */
export interface StoreLimits {
  /** As in {@link Store.insertTasks}: rows that may wait. */
  readonly backlogMax?: number;
  /** As in {@link Store.listTasks}: how many tasks a page may look at. */
  readonly examineMax?: number;
}

/** Opens a store without any data. */
export type OpenStore = (t: TestContext, options?: StoreLimits) => Promise<OpenedStore>;

/** The groups of the suite, by their titles. */
const GROUPS: Readonly<Record<string, (open: OpenStore) => void>> = {
  "accounts and keys": exerciseAccounts,
  "what an account is shown": exerciseAccountData,
  "webhook secrets": exerciseSecrets,
  "what waits for too long": exerciseQueueExpiry,
  "what daemons keep for themselves": exerciseKeptSecrets,
  "access requests": exerciseAccess,
  "posting and reading tasks": exercisePosting,
  "idempotency keys": exerciseIdempotency,
  "lists of tasks": exerciseListing,
  "cancelling tasks": exerciseCancelling,
  "the queue": exerciseQueue,
  "counts of tasks": exerciseCounts,
  "how much an account may have": exerciseQuotas,
  "ready tasks": exerciseReady,
  "running tasks": exerciseRunning,
  "whose turn it is": exerciseFairness,
  workers: exerciseWorkers,
  "sign-ins of the dashboard": exerciseSessions,
  "the machine's clock": exerciseClock,
  "disabled accounts": exerciseHolds,
  leases: exerciseLeases,
  "leases that are held": exerciseHeldLeases,
  "leases that ran out": exerciseEndedLeases,
  "leases as a machine of states": exerciseLeaseModel,
  deliveries: exerciseDeliveries,
  redelivery: exerciseRedelivery,
  "deliveries that are held": exerciseDeliveryPauses,
  "what the operator sees of deliveries": exerciseDeliveryLog,
  "what an account sees of its attempts": exerciseAttemptList,
  "redelivery orders": exerciseOrders,
  "looking for tasks": exerciseSearch,
  "the timeline of a task": exerciseTimeline,
  "a clock that was set": exerciseShift,
  "what happened over time": exerciseTraffic,
  "what happened at which host": exerciseHostTraffic,
  "how long tasks wait": exerciseWaiting,
  "the operator's list of accounts": exerciseOverviews,
  "the nodes that share it": exerciseCluster,
  "who is told of changes": exerciseWatch,
  "who did what": exerciseAudit,
  upkeep: exerciseUpkeep,
  "as a whole": exerciseWhole,
};

/** A share of the groups, so that several processes may have one each. */
export interface SuitePart {
  /** From 0. */
  readonly part: number;
  readonly of: number;
}

/** Holds an implementation of {@link Store} to every sentence of its comments; all of them unless a part is named. */
export function exerciseStore(
  name: string,
  open: OpenStore,
  { part, of }: SuitePart = { part: 0, of: 1 },
): void {
  for (const [index, [title, exercise]] of Object.entries(GROUPS).entries()) {
    if (index % of === part) describe(`${name}: ${title}`, () => exercise(open));
  }
}

function exerciseUpkeep(open: OpenStore): void {
  test("erases what has expired with its deliveries, and nothing else", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store);
    const expiresAt = T0 + 1000 + RETENTION_MS;
    const old = await seedDelivery(store, accountId);
    const [late, refused, waiting] = [newTask(), newRefusedTask(), newTask()];
    await seedFinished(store, accountId, { tasks: [late], endedAt: T0 + 1001 });
    const post = newPost(accountId, [waiting], {
      refused: [refused],
      refusedUntil: retainedUntil(expiresAt),
    });
    await store.insertTasks(post);
    await giveUpAll(store);

    assert.equal((await store.eraseExpired({ now: expiresAt - 1, max: 10 })).looked, 0);
    assert.equal((await store.eraseExpired({ now: expiresAt, max: 10 })).looked, 2);

    for (const { id } of [old, refused]) {
      assert.equal(await store.findTask({ accountId, id }), null);
      assert.equal(await store.listDeliveries({ accountId, id }), null);
    }
    assert.deepEqual(await store.listLanes({ accountId: "all" }), []);
    assert.deepEqual(
      (await store.listReady(taskQuery(accountId))).tasks.map(({ id }) => id),
      [late.id],
    );
    assert.equal(
      (await store.eraseExpired({ now: expiresAt + RETENTION_MS * 99, max: 10 })).looked,
      1,
    );
    assert.equal((await store.findTask({ accountId, id: waiting.id }))?.task.state, "queued");
    assert.equal((await store.listKeys("ada"))?.length, 1);
  });

  test("erases no more than asked for, what expired first before the rest", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store);
    const refused = [5, 1, 4, 2, 3].map((order) => ({ order, task: newRefusedTask() }));
    for (const { order, task } of refused) {
      const post = newPost(accountId, [], {
        refused: [task],
        refusedUntil: retainedUntil(T0 + order),
      });
      await store.insertTasks(post);
    }
    const left = async () => {
      const found = await Promise.all(
        refused.map(({ task }) => store.findTask({ accountId, id: task.id })),
      );
      return refused.filter((_, i) => found[i] !== null).map(({ order }) => order);
    };

    assert.equal((await store.eraseExpired({ now: T0 + 9, max: 2 })).looked, 2);
    assert.deepEqual(await left(), [5, 4, 3]);
    assert.equal((await store.eraseExpired({ now: T0 + 9, max: 2 })).looked, 2);
    assert.deepEqual(await left(), [5]);
    assert.equal((await store.eraseExpired({ now: T0 + 9, max: 2 })).looked, 1);
    assert.equal((await store.eraseExpired({ now: T0 + 9, max: 2 })).looked, 0);
  });

  // What is erased is overwritten: a hundred large tasks at once kept everybody waiting for seconds.
  test("erases few large tasks and kept answers in one step, but one at least", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store);
    const megabytes = [1, 3, 1, 0.5, 0.1];
    for (const size of megabytes) {
      const text = JSON.stringify("é".repeat(size * 500_000));
      const key = `key ${size} ${newTaskId()}`;
      const idempotency = { key, bodyHash: "hash", answerText: text, steadyAt: T0, eraseAt: T0 };
      const refused = [newRefusedTask({ inputText: text })];
      await store.insertTasks(newPost(accountId, [], { refused, idempotency }));
    }
    const steps = async (erase: () => Promise<number>) => {
      const counts = [await erase()];
      while (counts.at(-1) !== 0) counts.push(await erase());
      return counts;
    };

    const late = T0 + 2 * RETENTION_MS;
    const tasks = await steps(
      async () => (await store.eraseExpired({ now: late, max: 100 })).looked,
    );
    const stale = newStale({ answersBefore: late, decidedBefore: late });
    const answers = await steps(() => store.eraseStale(stale));

    assert.deepEqual(tasks, [1, 1, 3, 0]);
    assert.deepEqual(answers, [1, 1, 3, 0]);
  });

  test("tells how much of its space is data, without what erased tasks left", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store);
    const empty = await store.usedBytes();
    const tasks = [1, 2, 3].map(() =>
      newTask({ inputText: JSON.stringify("x".repeat(1_000_000)) }),
    );

    await seedFinished(store, accountId, { tasks });
    const full = await store.usedBytes();
    while ((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 100 })).looked > 0)
      continue;
    const erased = await store.usedBytes();

    assert(empty > 0);
    assert(full - empty > 3_000_000 && full - empty < 3_300_000, `${full - empty} bytes`);
    assert(erased - empty < 100_000, `${erased - empty} bytes`);
  });
}

function exerciseWhole(open: OpenStore): void {
  test("keeps its promises to 200 callers at once", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store);
    const claimed: number[] = [];
    const sent: number[] = [];

    async function call(): Promise<void> {
      const task = newTask({ postback: webhook("a.example") });
      await store.insertTasks(newPost(accountId, [task]));
      assert.notEqual(await store.findTask({ accountId, id: task.id }), null);
      for (const run of await store.claimTasks({ type: "echo", max: 2, now: T0 })) {
        claimed.push(run.seq);
        await store.finishTask(newFinish(run));
        const { id } = run;
        assert.equal((await store.findTask({ accountId, id }))?.task.state, "completed");
      }
      const lanes = [{ accountId, host: "a.example", fresh: 2, retries: 2 }];
      const { attempts } = await store.claimAttempts({ lanes, now: T0 + 1000 });
      sent.push(...attempts.map(({ seq }) => seq));
    }
    await Promise.all(Array.from({ length: 200 }, call));

    const left = await store.claimAttempts({
      lanes: [{ accountId, host: "a.example", fresh: 1000, retries: 0 }],
      now: T0 + 1000,
    });
    sent.push(...left.attempts.map(({ seq }) => seq));
    assert.equal(claimed.length, 200);
    assert.equal(new Set(claimed).size, 200, "a task was started twice");
    assert.equal(sent.length, 200);
    assert.equal(new Set(sent).size, 200, "an attempt was started twice");
    assert.equal((await store.listReady(taskQuery(accountId, { limit: 1000 }))).tasks.length, 200);
  });

  test("has everything again that it acknowledged when it is opened again", async (t) => {
    const { store, again } = await open(t);
    const accountId = await seedAccount(store);
    const [queued, delayed] = [newTask(), newTask({ startAt: T0 + 99_000 })];
    const sent = await seedDelivery(store, accountId);
    await store.insertTasks(newPost(accountId, [queued, delayed]));
    await store.claimAttempts({
      lanes: [{ accountId, host: "a.example", fresh: 1, retries: 0 }],
      now: T0 + 1000,
    });
    const read = async (from: Store) => ({
      accounts: await from.listAccounts(),
      keys: await from.listKeys("ada"),
      tasks: await Promise.all(
        [queued, delayed, sent].map(({ id }) => from.findTask({ accountId, id })),
      ),
      deliveries: await from.listDeliveries({ accountId, id: sent.id }),
      inFlight: await from.listInFlight({ of: "earlier life" }),
      ready: await from.listReady(taskQuery(accountId)),
    });
    const before = await read(store);

    await store.close();

    assert.deepEqual(await read(await again()), before);
    assert.equal(before.inFlight.length, 1);
  });

  test("finishes what was asked for before it closes, and may be closed twice", async (t) => {
    const { store, again } = await open(t);
    const accountId = await seedAccount(store);
    const tasks = Array.from({ length: 300 }, () => newTask());
    const posts = tasks.map((task) => store.insertTasks(newPost(accountId, [task])));

    await Promise.all([store.close(), store.close()]);

    await Promise.all(posts);
    const claimed = await (await again()).claimTasks({ type: "echo", max: 1000, now: T0 });
    assert.equal(claimed.length, 300);
    await store.close();
  });

  test("refuses a write as closed from the moment it is asked to close", async (t) => {
    const { store, again } = await open(t);
    const accountId = await seedAccount(store);
    const [early, late] = [newTask(), newTask()];

    const accepted = store.insertTasks(newPost(accountId, [early]));
    const closing = store.close();
    const refused = store.insertTasks(newPost(accountId, [late]));

    await assert.rejects(refused, { name: "StoreError", kind: "closed" });
    await Promise.all([accepted, closing]);
    const reopened = await again();
    assert.notEqual(await reopened.findTask({ accountId, id: early.id }), null);
    assert.equal(await reopened.findTask({ accountId, id: late.id }), null);
  });

  test("answers every method after its close with a StoreError of kind closed", async (t) => {
    const { store } = await open(t);
    await store.close();

    const answers = Object.entries(CALLS).map(async ([method, call]) => {
      const answer = await call(store).then(() => "a value", toAnswer);
      return [method, answer] as const;
    });

    const expected = Object.keys(CALLS).map((method) => [method, "closed"]);
    assert.deepEqual(await Promise.all(answers), expected);
    assert.equal(store.fault()?.kind, "closed");
    assert.equal(store.fault()?.isPassing, false);
  });
}

function toAnswer(error: unknown): string {
  return error instanceof StoreError ? error.kind : String(error);
}

const ATTEMPT: AttemptRef = {
  ...{ seq: 1, taskSeq: 1, taskId: newTaskId(), kind: "postback", number: 1, retry: 0 },
  ...{ accountId: 1, host: "a.example", dueAt: T0, startedAt: T0 },
};

const KEY = { accountId: 1, id: newTaskId() };

/** A call of every method, so that none is forgotten. */
const CALLS = {
  createAccount: (store) => store.createAccount(newAccount()),
  listAccounts: (store) => store.listAccounts(),
  setAccountDisabled: (store) => store.setAccountDisabled({ login: "ada", disabledAt: null }),
  hasSeveralAccounts: (store) => store.hasSeveralAccounts(),
  changeLimits: (store) => store.changeLimits({ login: "ada", limits: {} }),
  listSuspensionChanges: (store) => store.listSuspensionChanges({ after: 0 }),
  findSuspendedWork: (store) => store.findSuspendedWork({ accountId: 1 }),
  releaseTask: (store) => store.releaseTask({ seq: 1 }),
  createKey: (store) =>
    store.createKey({ ...newKeyToStore(), login: "ada", createdAt: T0, activeMax: 1 }),
  findAccount: (store) => store.findAccount("x"),
  listKeys: (store) => store.listKeys("ada"),
  revokeKey: (store) => store.revokeKey({ keyId: "key_x", accountId: null, revokedAt: T0 }),
  touchKeys: (store) => store.touchKeys([{ keyId: "key_x", usedAt: T0 }]),
  findAccountData: (store) => store.findAccountData({ accountId: 1, revokedMax: 1 }),
  findSecrets: (store) => store.findSecrets("ada"),
  rotateSecret: (store) => store.rotateSecret({ login: "ada", next: "whsec_x" }),
  finishRotation: (store) => store.finishRotation({ login: "ada" }),
  findKeyHolder: (store) => store.findKeyHolder("x"),
  insertAccessRequest: (store) => store.insertAccessRequest(newAccessRequest()),
  listAccessRequests: (store) => store.listAccessRequests({ which: "all", limit: 1 }),
  findApprovedRequest: (store) => store.findApprovedRequest(1),
  countPendingRequests: (store) => store.countPendingRequests(1),
  approveAccessRequest: (store) =>
    store.approveAccessRequest({ id: "x", decidedAt: T0, account: newAccount() }),
  denyAccessRequest: (store) => store.denyAccessRequest({ id: "x", decidedAt: T0 }),
  denyAccessRequests: (store) => store.denyAccessRequests({ madeBefore: T0, decidedAt: T0 }),
  insertTasks: (store) => store.insertTasks(newPost(1, [newTask()])),
  findTask: (store) => store.findTask(KEY),
  findKeptAnswer: (store) => store.findKeptAnswer({ accountId: 1, key: "k", steadyAt: T0 }),
  collectTask: (store) => store.collectTask(KEY),
  cancelTask: (store) => store.cancelTask({ ...KEY, cancelledAt: T0, ...retainedUntil(T0) }),
  listTasks: (store) => store.listTasks(taskQuery(1)),
  listReady: (store) => store.listReady(taskQuery(1)),
  claimTasks: (store) => store.claimTasks({ type: "echo", max: 1, now: T0 }),
  finishTask: (store) => store.finishTask(newFinish({ seq: 1 })),
  retryTask: (store) => store.retryTask({ seq: 1, startAt: T0 }),
  requeueTasks: (store) => store.requeueTasks({ of: "earlier life" }),
  markQueue: (store) => store.markQueue({ servedMs: 1, everyMs: 1, queueMs: 1 }),
  expireQueued: (store) => store.expireQueued(newExpiry(1)),
  releaseDelayed: (store) => store.releaseDelayed({ now: T0, max: 1 }),
  findEndedTasks: (store) => store.findEndedTasks({ ids: [] }),
  findOldestQueued: (store) => store.findOldestQueued(["echo"]),
  listTypeWork: (store) => store.listTypeWork({ types: ["echo"], waitingMax: 1 }),
  listQueuedTypes: (store) => store.listQueuedTypes(),
  findWaitingTypes: (store) => store.findWaitingTypes(["echo"]),
  noteProgress: (store) => store.noteProgress([]),
  findProgress: (store) => store.findProgress({ ids: [] }),
  listNodes: (store) => store.listNodes(),
  findDatabaseHealth: (store) => store.findDatabaseHealth(),
  claimLeases: (store) => store.claimLeases(newLeaseClaim(1)),
  extendLeases: (store) => store.extendLeases({ leases: [], workerId: 1, now: T0 }),
  endLeases: (store) => store.endLeases({ ends: [], workerId: null, now: T0 }),
  resumeLeases: (store) => store.resumeLeases({ of: "earlier life", now: T0 }),
  findLeases: (store) => store.findLeases({ leases: [], workerId: 1 }),
  listDueLeases: (store) => store.listDueLeases({ now: T0, max: 1 }),
  createWorker: (store) => store.createWorker(newWorker()),
  listWorkers: (store) => store.listWorkers(),
  revokeWorker: (store) => store.revokeWorker({ name: "w", revokedAt: T0 }),
  touchWorkers: (store) => store.touchWorkers([{ workerId: 1, seenAt: T0 }]),
  findWorkerHolder: (store) => store.findWorkerHolder("x"),
  listLanes: (store) => store.listLanes({ accountId: "all" }),
  listDueLanes: (store) => store.listDueLanes({ since: T0, until: T0 }),
  listProvenLanes: (store) => store.listProvenLanes({ since: T0, max: 1 }),
  claimAttempts: (store) => store.claimAttempts({ lanes: [], now: T0 }),
  listInFlight: (store) => store.listInFlight({ of: "earlier life" }),
  makeLargePostback: (store) => store.makeLargePostback(ATTEMPT),
  recordAttempt: (store) =>
    store.recordAttempt({
      attempt: ATTEMPT,
      result: newAttemptResult(),
      endedAt: T0,
      decision: { state: "given_up" },
    }),
  listDeliveries: (store) => store.listDeliveries(KEY),
  redeliver: (store) => store.redeliver({ ...KEY, kind: null, states: null, now: T0 }),
  noteAudit: (store) => store.noteAudit(newEntry()),
  listAudit: (store) => store.listAudit({ since: null, action: null, limit: 1, before: null }),
  pauseDeliveries: (store) => {
    const scope = { accountId: null, host: null };
    return store.pauseDeliveries({ ...scope, since: T0, reason: null, pausedBy: "root" });
  },
  resumeDeliveries: (store) => store.resumeDeliveries({ accountId: null, host: null }),
  listDeliveryPauses: (store) => store.listDeliveryPauses(),
  countScheduled: (store) => store.countScheduled({ accountId: null, host: null }),
  findClockReading: (store) => store.findClockReading(),
  keepClockReading: (store) => store.keepClockReading(newReading()),
  resumeClock: (store) =>
    store.resumeClock({ reading: newReading(), stepMs: 0, isElapsedKnown: true }),
  shiftTimes: (store) => store.shiftTimes({ after: T0, by: 1 }),
  hastenAttempts: (store) => store.hastenAttempts({ now: T0, latest: T0 }),
  findTaskDeliveries: (store) => store.findTaskDeliveries("x"),
  listAllDeliveries: (store) =>
    store.listAllDeliveries({ filter: deliveryFilter(), limit: 1, before: null }),
  listAttempts: (store) => store.listAttempts({ accountId: 1, after: null, limit: 1, now: T0 }),
  countEndedDeliveries: (store) => store.countEndedDeliveries(deliveryFilter()),
  orderRedelivery: (store) => store.orderRedelivery({ ...newOrder(), openMax: null }),
  listRedeliveryOrders: (store) => store.listRedeliveryOrders({ login: null, limit: 1 }),
  findRedeliveryOrder: (store) => store.findRedeliveryOrder("x"),
  cancelRedeliveryOrder: (store) => store.cancelRedeliveryOrder({ id: "x", login: null, now: T0 }),
  countEndedDeliveriesStep: (store) =>
    store.countEndedDeliveriesStep({ filter: deliveryFilter(), before: null }),
  searchTasks: (store) =>
    store.searchTasks({ scope: null, search: ANY_TASK, limit: 1, after: null }),
  findTimeline: (store) => store.findTimeline({ scope: null, id: "x" }),
  listOpenRedeliveryOrders: (store) => store.listOpenRedeliveryOrders({ limit: 1 }),
  stepRedeliveryOrder: (store) => store.stepRedeliveryOrder({ id: "x", max: 1, now: T0 }),
  cancelTasks: (store) => store.cancelTasks(newTaskCancels(1)),
  eraseTask: (store) => store.eraseTask({ id: "x", hasWebhooks: false }),
  eraseAccountPart: (store) => store.eraseAccountPart({ login: "ada" }),
  eraseExpired: (store) => store.eraseExpired({ now: T0, max: 1 }),
  eraseStale: (store) => store.eraseStale(newStale()),
  countWork: (store) => store.countWork(1),
  findTraffic: (store) => store.findTraffic({ scope: 1, from: T0, to: T0 }),
  listHostTraffic: (store) => store.listHostTraffic({ scope: 1, since: T0, limit: 1 }),
  findOldestWaiting: (store) => store.findOldestWaiting(1),
  listAccountOverviews: (store) =>
    store.listAccountOverviews({ part: null, after: null, limit: 1, now: T0 }),
  keepSecret: (store) => store.keepSecret({ name: "cursors", fresh: "a" }),
  sampleQueues: (store) => store.sampleQueues({ now: T0 }),
  foldTraffic: (store) => store.foldTraffic({ minutesBefore: T0 }),
  createSession: (store) =>
    store.createSession({ hash: "x", keyId: null, createdAt: T0, sessionsMax: 1 }),
  findSession: (store) => store.findSession("x"),
  touchSessions: (store) => store.touchSessions([{ sessionId: 1, seenAt: T0 }]),
  endSession: (store) => store.endSession("x"),
  createSignInLink: (store) => store.createSignInLink({ hash: "x", expiresAt: T0 }),
  useSignInLink: (store) => {
    const session = { hash: "x", keyId: null, createdAt: T0, sessionsMax: 1 };
    return store.useSignInLink({ hash: "x", now: T0, session });
  },
  usedBytes: (store) => store.usedBytes(),
  reclaimSpace: (store) => store.reclaimSpace(),
  tryWrite: (store) => store.tryWrite(),
  checkFile: (store) => store.checkFile(),
} satisfies Record<
  Exclude<keyof Store, "cluster" | "watch" | "fault" | "shortage" | "lookAtFile" | "close">,
  (store: Store) => Promise<unknown>
>;
