import assert from "node:assert/strict";
import { test } from "node:test";

import { HOUR_MS, MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { AttemptOutcome, DeliveryDecision } from "../../src/domain/webhook/delivery.ts";
import type { Changes, HostTraffic, Scope, Store } from "../../src/store/store.ts";
import {
  NEW_TASK_BYTES,
  NO_OWN_LIMITS,
  RETENTION_MS,
  T0,
  claimAttempt,
  claimOne,
  giveUpAll,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newKeyToStore,
  newPost,
  newStale,
  newTask,
  newTaskId,
  pluck,
  postTask,
  seedAccount,
  seedDelivery,
  webhook,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

const EVER = { from: 0, to: T0 + 10 * RETENTION_MS };

export function exerciseTraffic(open: OpenStore): void {
  test("traffic is counted by the minute of each change", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const times = [T0, T0 + MINUTE_MS - 1, T0 + MINUTE_MS, T0 + HOUR_MS];

    await Promise.all(
      times.map((createdAt) =>
        store.insertTasks(newPost(accountId, [newTask(), newTask()], { createdAt })),
      ),
    );

    const posted = async (query: { from: number; to: number }) => {
      const { steps } = await store.findTraffic({ scope: accountId, ...query });
      return steps.map((step) => [step.at - T0, step.posted]);
    };
    const all = [
      [0, 4],
      [MINUTE_MS, 2],
      [HOUR_MS, 2],
    ];
    assert.deepEqual(await posted(EVER), all);
    assert.deepEqual(await posted({ from: T0, to: T0 + HOUR_MS }), all.slice(0, 2));
    assert.deepEqual(await posted({ from: T0 + 1, to: T0 + HOUR_MS + 1 }), all.slice(1));
  });

  test("minutes become hours in bounded steps, and maxima are kept", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const minutes = 20 * 60;
    for (let minute = 0; minute < minutes; minute++) {
      const at = T0 + minute * MINUTE_MS;
      await store.insertTasks(newPost(accountId, [newTask()], { createdAt: at }));
      if (minute % 60 < 2) await store.sampleQueues({ now: at + 7 });
    }
    const half = T0 + 10 * HOUR_MS + HOUR_MS / 2;

    let folds = 1;
    while ((await store.foldTraffic({ minutesBefore: half })) === "more") folds++;

    assert(folds > 1, "everything was folded in one step");
    const { steps } = await store.findTraffic({ scope: accountId, ...EVER });
    const [first, ...others] = steps;
    assert.deepEqual(first, {
      ...{ at: T0, stepMs: HOUR_MS, posted: 60, completed: 0, failed: 0, cancelled: 0 },
      ...{ firstAttempts: 0, firstDelivered: 0, delivered: 0, givenUp: 0, refused: 0 },
      ...{ queued: 2, oldestMs: MINUTE_MS + 7 },
    });
    const kept = steps.filter(({ stepMs }) => stepMs === MINUTE_MS).map(({ at }) => at);
    assert.deepEqual([kept.at(0), kept.length], [half, minutes - 630]);
    assert.equal(others.at(9)?.posted, 30);
    assert.equal(await store.foldTraffic({ minutesBefore: half + HOUR_MS }), "done");
    const after = await store.findTraffic({ scope: null, ...EVER });
    assert.equal(sumOf(pluck(after.steps, "posted")), minutes);
    assert.deepEqual(
      after.steps.filter(({ at }) => at === half - HOUR_MS / 2).map(({ posted }) => posted),
      [60],
    );
  });

  test("traffic before a time is erased in bounded steps", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const at of [0, 1, 2, 3]) {
      await seedDelivery(store, accountId, { dueAt: T0 + at * HOUR_MS });
      const attempt = await claimAttempt(store, "a.example", T0 + at * HOUR_MS);
      await store.recordAttempt(
        newAttemptRecord(attempt, { endedAt: attempt.startedAt, decision: { state: "given_up" } }),
      );
    }
    await store.foldTraffic({ minutesBefore: T0 + HOUR_MS });
    const query = { scope: accountId, since: 0, limit: 9, only: "sent" } as const;
    const steps = async () =>
      (await store.findTraffic({ scope: accountId, from: T0 + 1, to: EVER.to })).steps.map(
        ({ at }) => at - T0,
      );
    const hours = async () => {
      const { hosts } = await store.listHostTraffic(query);
      return [hosts[0]?.attempts, hosts[0]?.lastFailure?.endedAt];
    };
    assert.deepEqual(await hours(), [4, T0 + 3 * HOUR_MS]);

    // Of each account and of all: a step, and an hour of the host.
    const trafficBefore = T0 + 2 * HOUR_MS;
    const erased = [];
    do erased.push(await store.eraseStale(newStale({ trafficBefore, max: 1 })));
    while (erased.at(-1) !== 0);

    assert.equal(sumOf(erased), 2 * 2 + 2 * 2);
    assert(Math.max(...erased) <= 4);
    assert.deepEqual(await steps(), [2 * HOUR_MS, 3 * HOUR_MS]);
    assert.deepEqual(await hours(), [2, T0 + 3 * HOUR_MS]);
    while ((await store.eraseStale(newStale({ trafficBefore: T0 + RETENTION_MS }))) > 0) continue;
    assert.deepEqual(await store.findTraffic({ scope: null, ...EVER }), {
      steps: [],
      durations: [],
    });
    assert.deepEqual(await hours(), [undefined, undefined]);
  });
}

export function exerciseWaiting(open: OpenStore): void {
  test("the oldest waiting time ignores delayed tasks", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const later = newTask({ startAt: T0 + 5000 });
    await store.insertTasks(newPost(ada, [later]));
    const oldest = () =>
      Promise.all([ada, bob, null].map((scope) => store.findOldestWaiting(scope)));
    assert.deepEqual(await oldest(), [null, null, null]);

    await store.releaseDelayed({ now: T0 + 5000, max: 1 });
    assert.deepEqual(await oldest(), [T0 + 5000, null, T0 + 5000]);
    await store.insertTasks(newPost(ada, [newTask()], { createdAt: T0 + 3000 }));
    await store.insertTasks(newPost(bob, [newTask()], { createdAt: T0 + 2000 }));
    assert.deepEqual(await oldest(), [T0 + 3000, T0 + 2000, T0 + 2000]);
    await store.claimTasks({ type: "echo", max: 9, now: T0 + 6000 });
    assert.deepEqual(await oldest(), [null, null, null]);
  });

  test("the oldest waiting time is found among the first hundred released tasks", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store, "ada");
    const post = (startAt: number, count = 1) =>
      store.insertTasks(
        newPost(
          ada,
          Array.from({ length: count }, () => newTask({ startAt })),
        ),
      );
    for (const seconds of [30, 20, 40]) await post(T0 + seconds * 1000);
    await store.releaseDelayed({ now: T0 + 60_000, max: 9 });
    assert.equal(await store.findOldestWaiting(ada), T0 + 20_000);

    await store.claimTasks({ type: "echo", max: 9, now: T0 + 60_000 });
    await post(T0 + 30_000, 100);
    await post(T0 + 20_000);
    await store.releaseDelayed({ now: T0 + 60_000, max: 200 });
    assert.equal(await store.findOldestWaiting(ada), T0 + 30_000);
  });

  test("the largest sampled queue of each minute is kept", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    await store.sampleQueues({ now: T0 });
    assert.deepEqual((await store.findTraffic({ scope: ada, ...EVER })).steps, []);
    await store.insertTasks(newPost(ada, [newTask(), newTask({ startAt: T0 + 90_000 })]));
    await store.insertTasks(newPost(bob, [newTask()], { createdAt: T0 + 1 }));

    await store.sampleQueues({ now: T0 + 10_000 });
    await store.claimTasks({ type: "echo", max: 9, now: T0 + 6000 });
    await store.sampleQueues({ now: T0 + 20_000 });
    await store.sampleQueues({ now: T0 + MINUTE_MS });

    const seen = async (scope: Scope) => {
      const { steps } = await store.findTraffic({ scope, ...EVER });
      return steps.map(({ at, queued, oldestMs }) => [at - T0, queued, oldestMs]);
    };
    assert.deepEqual(await seen(ada), [[0, 1, 10_000]]);
    assert.deepEqual(await seen(bob), [[0, 1, 9_999]]);
    // Also a step in which nothing waits.
    assert.deepEqual(await seen(null), [
      [0, 2, 10_000],
      [MINUTE_MS, 0, 0],
    ]);
  });
}

export function exerciseOverviews(open: OpenStore): void {
  test("accounts are listed by login with their keys, counts and last day", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store, "ada");
    for (const login of ["zoe", "bob_%", "eve"]) await seedAccount(store, login);
    await store.setAccountDisabled({ login: "eve", disabledAt: T0 + 1 });
    await store.rotateSecret({ login: "zoe", next: "whsec_next" });
    const now = T0 + 24 * HOUR_MS;
    await store.insertTasks(newPost(ada, [newTask()]));
    await store.insertTasks(newPost(ada, [newTask(), newTask()], { createdAt: T0 + MINUTE_MS }));

    const query = { part: null, after: null, limit: 3, now };
    const page = await store.listAccountOverviews(query);
    const rest = await store.listAccountOverviews({ ...query, after: page.next });

    const none = { queued: 0, running: 0, completed: 0, failed: 0, cancelled: 0 };
    assert.deepEqual(page.accounts[0], {
      ...{ login: "ada", createdAt: T0, disabledAt: null, keysActive: 1, isRotating: false },
      ownLimits: NO_OWN_LIMITS,
      held: null,
      counts: {
        ...{ ...none, queued: 3, delayed: 0, ready: 0, retrying: 0, undelivered: 0 },
        bytes: 3 * NEW_TASK_BYTES,
      },
      // The first minute began a day ago.
      day: { posted: 2, delivered: 0, givenUp: 0, refused: 0 },
    });
    assert.deepEqual(pluck(page.accounts, "login", "disabledAt", "held"), [
      ["ada", null, null],
      ["bob_%", null, null],
      ["eve", T0 + 1, { queued: 0, running: 0, webhooks: 0 }],
    ]);
    assert.equal(page.next, "eve");
    assert.deepEqual(
      [rest.accounts.map(({ login, isRotating }) => [login, isRotating]), rest.next],
      [[["zoe", true]], null],
    );
    const found = await store.listAccountOverviews({ ...query, part: "b_%" });
    assert.deepEqual(pluck(found.accounts, "login"), ["bob_%"]);
    assert.deepEqual(
      (await store.listAccountOverviews({ ...query, part: "%" })).accounts.length,
      1,
    );
  });
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

export function exerciseHostTraffic(open: OpenStore): void {
  test("hosts are listed by lost deliveries, then by failed attempts", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store);
    await send(store, ada, { host: "good.example", outcome: "delivered" });
    await send(store, ada, { host: "busy.example", outcome: "delivered" });
    await send(store, ada, { host: "busy.example", outcome: "delivered" });
    for (const _ of [1, 2, 3]) await send(store, ada, { host: "bad.example", outcome: "failed" });
    await send(store, ada, { host: "worse.example", outcome: "refused" });
    await send(store, ada, { host: "again.example", outcome: "timed_out", isRetried: true });
    await send(store, ada, { host: "cut.example", outcome: "interrupted", isRetried: true });

    const hosts = await list(store, ada);

    // Two hosts have one refusal or one retry each, and no success.
    assert.deepEqual(hosts.map(summary), [
      ["bad.example", 3, 0, 3, 0, 0],
      ["again.example", 1, 0, 0, 0, 1],
      ["worse.example", 1, 0, 0, 1, 0],
      ["busy.example", 2, 2, 0, 0, 0],
      ["good.example", 1, 1, 0, 0, 0],
    ]);
    assert.deepEqual(hosts[0]?.durations, new Map([[12, 3]]));
  });

  test("hosts with failed deliveries are listed without recent attempts, unless only sent ones are wanted", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const lost = { host: "a.example", outcome: "failed" } as const;
    for (const accountId of [ada, bob, bob]) await send(store, accountId, lost);
    await send(store, ada, { ...lost, outcome: "refused" });
    const later = T0 + HOUR_MS;
    const failed = async (scope: Scope) => {
      const hosts = await list(store, scope, later);
      return pluck(hosts, "host", "givenUp", "refused");
    };

    assert.deepEqual(await failed(ada), [["a.example", 1, 1]]);
    assert.deepEqual(await failed(null), [["a.example", 3, 1]]);
    const query = { scope: ada, limit: 9, only: "sent" } as const;
    const { hosts } = await store.listHostTraffic({ ...query, since: T0 });
    assert.deepEqual(pluck(hosts, "host", "givenUp", "refused"), [["a.example", 1, 1]]);
    const none = { hosts: [], hasMore: false };
    assert.deepEqual(await store.listHostTraffic({ ...query, since: later }), none);
  });

  test("an erased account leaves no host of its own and no share in the counts of others", async (t) => {
    const { store } = await open(t);
    const accounts = new Map<string, number>();
    for (const login of ["ada", "bob", "eve"]) accounts.set(login, await seedAccount(store, login));
    const sent =
      "ada own, ada all, bob all, bob all, eve all, ada gone, eve gone, ada last, bob last";
    for (const each of sent.split(", ")) {
      const [login = "", host = ""] = each.split(" ");
      const accountId = accounts.get(login) ?? assert.fail();
      await send(store, accountId, { host: `${host}.example`, outcome: "failed" });
    }
    const bob = accounts.get("bob") ?? assert.fail();
    for (const login of ["ada", "eve"]) {
      await store.setAccountDisabled({ login, disabledAt: T0 });
      while ((await store.eraseAccountPart({ login })).kind === "more") continue;
    }

    const all = await list(store, null);

    assert.deepEqual(all.map(summary), (await list(store, bob)).map(summary));
    assert.deepEqual(
      all.map(({ host, attempts, durations }) => [host, attempts, [...durations.values()]]),
      [
        ["all.example", 2, [2]],
        ["last.example", 1, [1]],
      ],
    );
    // The failure of the erased task is gone, the last failure of others stays.
    assert.deepEqual(
      all.map(({ lastFailure }) => lastFailure !== null),
      [false, true],
    );
    await store.setAccountDisabled({ login: "bob", disabledAt: T0 });
    while ((await store.eraseAccountPart({ login: "bob" })).kind === "more") continue;
    assert.deepEqual(await list(store, null), []);
  });

  test("the last failure within the time is listed with its task until the task is erased", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const lost = { host: "a.example", outcome: "failed" } as const;
    await send(store, accountId, lost);
    const id = await send(store, accountId, { ...lost, at: T0 + 2000 });
    await send(store, accountId, { ...lost, outcome: "delivered", at: T0 + 3000 });

    const [host] = await list(store, accountId);
    assert.deepEqual(host?.lastFailure, {
      ...{ endedAt: T0 + 2050, error: "connection refused", httpStatus: null, taskId: id },
    });

    // The seq of the erased task is used again.
    while ((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 9 })).looked > 0) continue;
    const bob = await seedAccount(store, "bob");
    for (const _ of [1, 2, 3]) {
      await send(store, bob, { ...lost, host: "b.example", at: T0 + 2000 });
    }
    const [left] = await list(store, accountId);
    assert.deepEqual([left?.lastFailure?.endedAt, left?.lastFailure?.taskId], [T0 + 2050, null]);
    assert.deepEqual(await list(store, accountId, T0 + HOUR_MS), []);
  });

  test("the last failure is the last one recorded, also after one of a clock in the future", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const lost = { host: "a.example", outcome: "failed" } as const;
    await send(store, accountId, { ...lost, at: T0 + 1000 * HOUR_MS });
    const id = await send(store, accountId, { ...lost, at: T0 + 2000 });
    assert.equal((await list(store, accountId))[0]?.lastFailure?.taskId, id);
  });

  test("hosts are counted by the hour, and the list reports further hosts", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const [hour, host] of ["a.example", "b.example", "c.example", "a.example"].entries()) {
      await send(store, accountId, { host, outcome: "delivered", at: T0 + hour * HOUR_MS });
    }

    const since = T0 + HOUR_MS + 1;
    const page = await store.listHostTraffic({ scope: accountId, since, limit: 2 });
    const all = await store.listHostTraffic({ scope: accountId, since, limit: 3 });

    assert.deepEqual(all.hosts.map(summary), [
      ["a.example", 1, 1, 0, 0, 0],
      ["b.example", 1, 1, 0, 0, 0],
      ["c.example", 1, 1, 0, 0, 0],
    ]);
    assert.equal(all.hasMore, false);
    assert.deepEqual([page.hosts, page.hasMore], [all.hosts.slice(0, 2), true]);
  });
}

/** Makes a task of an account, and sends its postback; its attempt takes 50 ms. */
async function send(
  store: Store,
  accountId: number,
  {
    host,
    outcome,
    isRetried = false,
    at = T0 + 1000,
  }: { host: string; outcome: AttemptOutcome; isRetried?: boolean; at?: number },
): Promise<string> {
  const { id } = await seedDelivery(store, accountId, { host, dueAt: at });
  const attempt = await claimAttempt(store, host, at);
  const result = newAttemptResult({ outcome });
  const endedAt = at + 50;
  const retry = outcome === "interrupted" ? 0 : 1;
  const later: DeliveryDecision = { state: "scheduled", dueAt: at + 9 * HOUR_MS, retry };
  const state = outcome === "delivered" || outcome === "refused" ? outcome : "given_up";
  const decision: DeliveryDecision = isRetried ? later : { state };
  await store.recordAttempt(newAttemptRecord(attempt, { result, endedAt, decision }));
  return id;
}

async function list(store: Store, scope: Scope, since = T0): Promise<readonly HostTraffic[]> {
  const { hosts, hasMore } = await store.listHostTraffic({ scope, since, limit: 100 });
  assert.equal(hasMore, false);
  return hosts;
}

function summary(traffic: HostTraffic): readonly unknown[] {
  const { host, attempts, succeeded, givenUp, refused, retrying } = traffic;
  return [host, attempts, succeeded, givenUp, refused, retrying];
}

/** Accounts of the notifications from now on; `take` returns and removes them. */
function watch(store: Store): {
  readonly take: () => readonly number[];
  readonly stop: () => void;
} {
  const told: number[] = [];
  const stop = store.watch(({ accounts }) => {
    assert.equal(
      new Set(accounts).size,
      accounts.length,
      "an account is named once a notification",
    );
    assert(accounts.length > 0, "a notification names an account");
    told.push(...accounts);
  });
  return { take: () => [...new Set(told.splice(0))].toSorted((a, b) => a - b), stop };
}

export function exerciseWatch(open: OpenStore): void {
  test("each step of a task notifies watchers of its account", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store, "ada");
    await seedAccount(store, "bob");
    const { take } = watch(store);
    const task = await postTask(store, ada, { postback: webhook("a.example") });
    assert.deepEqual(take(), [ada], "posted");
    const claimed = await claimOne(store);
    assert.deepEqual(take(), [ada], "started");
    await store.finishTask(newFinish(claimed));
    assert.deepEqual(take(), [ada], "ended");
    const attempt = await claimAttempt(store);
    assert.deepEqual(take(), [ada], "an attempt was started");
    await store.recordAttempt(newAttemptRecord(attempt));
    assert.deepEqual(take(), [ada], "an attempt has ended");
    await store.redeliver({
      accountId: ada,
      id: task.id,
      kind: null,
      states: null,
      now: T0 + 2000,
    });
    assert.deepEqual(take(), [ada], "it is sent again");
    await store.collectTask({ accountId: ada, id: task.id });
    assert.deepEqual(take(), [ada], "collected");
    await giveUpAll(store);
    take();
    await store.eraseExpired({ now: T0 + 1000 + RETENTION_MS, max: 10 });
    assert.deepEqual(take(), [ada], "erased");
  });

  test("a notification of the node's own writes has no types, lanes or ends", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store, "ada");
    const told: Changes[] = [];
    store.watch((changes) => told.push(changes));
    await store.insertTasks(newPost(ada, [newTask({ postback: webhook("a.example") })]));
    const lanes = await store.finishTask(newFinish(await claimOne(store)));
    assert.deepEqual(lanes, [{ accountId: ada, host: "a.example" }]);
    const own = { accounts: [ada], types: [], lanes: [], ended: [] };
    assert.deepEqual(told, [own, own, own]);
  });

  test("a write without a changed task or delivery sends no notification", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store, "ada");
    const { id } = await seedDelivery(store, ada);
    await store.collectTask({ accountId: ada, id });
    const { take } = watch(store);
    const key = { ...newKeyToStore(), login: "ada", createdAt: T0, activeMax: 20 };
    await store.createKey(key);
    await store.touchKeys([{ keyId: key.keyId, usedAt: T0 }]);
    await store.collectTask({ accountId: ada, id });
    await store.collectTask({ accountId: ada, id: newTaskId() });
    await store.eraseExpired({ now: T0, max: 10 });
    assert.deepEqual(take(), []);
  });

  test("all watchers are notified until they stop", async (t) => {
    const { store } = await open(t);
    const ada = await seedAccount(store, "ada");
    const [one, other] = [watch(store), watch(store)];
    await store.insertTasks(newPost(ada, [newTask()]));
    assert.deepEqual([one.take(), other.take()], [[ada], [ada]]);
    one.stop();
    one.stop();
    await store.insertTasks(newPost(ada, [newTask()]));
    assert.deepEqual([one.take(), other.take()], [[], [ada]]);
  });
}
