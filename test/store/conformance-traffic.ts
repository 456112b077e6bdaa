import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { HOUR_MS, MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { bucketOf } from "../../src/domain/stats/time-series.ts";
import type { TaskSummary } from "../../src/domain/task/task.ts";
import type { Delivery, Scope, Store } from "../../src/store/store.ts";
import {
  NO_OWN_LIMITS,
  NEW_TASK_BYTES,
  claimAttempt,
  giveUpAll,
  newAttemptRecord,
  newPost,
  newStale,
  newTask,
  RETENTION_MS,
  seedAccount,
  seedDelivery,
  T0,
  taskQuery,
  pluck,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import { retryOf } from "./conformance-counts.ts";
import type { OpenStore } from "./conformance.ts";
import {
  ALL_REASONS,
  HOSTS,
  liveRound,
  newWorld,
  randomLife,
  WAITS_MS,
  type World,
} from "./random-life.ts";

const EVER = { from: 0, to: T0 + 10 * RETENTION_MS };

export function exerciseTraffic(open: OpenStore): void {
  // Steps of a round share batches, and some fail: their batch runs again.
  test("traffic equals the logs after random writes", async (t) => {
    const { store, again } = await open(t);
    const world = await newWorld(store);
    const undone = new Set<string>();

    const property = fc.asyncProperty(randomLife({ erases: false }), async (rounds) => {
      for (const round of rounds) {
        for (const reason of await liveRound(world, round)) undone.add(reason);
      }
      await assertAsLogged(world);
    });
    // The order of steps may differ: lives continue until every event has happened.
    let lives = 0;
    do await fc.assert(property, { numRuns: 60, seed: 9 + lives++ });
    while (lives < 5 && (await assertAsLogged(world)).some(({ sums }) => lacksSome(sums)));

    for (const scope of await assertAsLogged(world)) assertSomeOfEach(scope);
    assert.deepEqual(undone, ALL_REASONS);
    await giveUpAll(store);
    const before = await Promise.all(scopesOf(world).map((scope) => read(store, scope)));
    while ((await store.eraseExpired({ now: EVER.to, max: 100 })).looked > 0) continue;
    await store.close();
    const reopened = await again();
    const after = await Promise.all(scopesOf(world).map((scope) => read(reopened, scope)));
    assert.deepEqual(after, before.map(withoutUndelivered));
    for (const [place, scope] of scopesOf(world).entries()) {
      assert.deepEqual(await foldedSums(reopened, scope), before[place]?.sums);
    }
  });

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

/** Counts by step, durations of attempts, counts by host, and the sum of all steps. */
interface Counted {
  readonly steps: Readonly<Record<number, Sums>>;
  readonly durations: Readonly<Record<string, number>>;
  readonly hosts: Readonly<Record<string, HostSums>>;
  readonly sums: Sums;
}

type Sums = Record<(typeof WORDS)[number], number>;

const WORDS = [
  ...(["posted", "completed", "failed", "cancelled", "firstAttempts", "firstDelivered"] as const),
  ...(["delivered", "givenUp", "refused"] as const),
] as const;

interface HostSums {
  attempts: number;
  succeeded: number;
  givenUp: number;
  refused: number;
  retrying: number;
}

function scopesOf({ accounts }: World): readonly Scope[] {
  return [...accounts, null];
}

async function assertAsLogged(world: World): Promise<readonly Counted[]> {
  const logs = await Promise.all(world.accounts.map((id) => readLog(world, id)));
  const logged = [...logs.map((log) => recount([log])), recount(logs)];
  for (const [place, scope] of scopesOf(world).entries()) {
    assert.deepEqual(await read(world.store, scope), logged[place]);
  }
  return logged;
}

function lacksSome(sums: Sums): boolean {
  return WORDS.some((word) => sums[word] === 0);
}

function assertSomeOfEach({ sums, durations, hosts }: Counted): void {
  for (const word of WORDS) assert(sums[word] > 0, word);
  assert(Object.keys(durations).length > 10);
  assert.deepEqual(Object.keys(hosts).sort(), HOSTS);
}

async function read(store: Store, scope: Scope): Promise<Counted> {
  const { steps, durations } = await store.findTraffic({ scope, ...EVER });
  const { hosts, hasMore } = await store.listHostTraffic({ scope, since: 0, limit: 100 });
  assert.equal(hasMore, false);
  const tally = new Recount();
  for (const { at, stepMs, ...step } of steps) {
    assert.equal(stepMs, MINUTE_MS);
    for (const word of WORDS) tally.count(at, word, step[word]);
  }
  for (const { at, bucket, count } of durations) tally.durations[`${at} ${bucket}`] = count;
  for (const { host, durations: ofHost, lastFailure: _last, ...sums } of hosts) {
    tally.hosts[host] = sums;
    assert.equal(sumOf([...ofHost.values()]), sums.attempts);
  }
  return tally.end();
}

/** The counts after the erasure of all tasks: without given up and refused deliveries. */
function withoutUndelivered(counted: Counted): Counted {
  const hosts = Object.entries(counted.hosts).map(
    ([host, sums]) => [host, { ...sums, givenUp: 0, refused: 0 }] as const,
  );
  return { ...counted, hosts: Object.fromEntries(hosts) };
}

async function foldedSums(store: Store, scope: Scope): Promise<Sums> {
  while ((await store.foldTraffic({ minutesBefore: EVER.to })) === "more") continue;
  const { steps } = await store.findTraffic({ scope, ...EVER });
  const tally = new Recount();
  for (const { at, stepMs, ...step } of steps) {
    assert.equal(stepMs, HOUR_MS);
    assert.equal(at % HOUR_MS, 0);
    for (const word of WORDS) tally.count(at, word, step[word]);
  }
  return tally.end().sums;
}

/** All tasks and deliveries of an account. */
interface Log {
  readonly tasks: readonly TaskSummary[];
  readonly deliveries: readonly Delivery[];
}

async function readLog({ store, ids }: World, accountId: number): Promise<Log> {
  const keys = ids.filter((key) => key.accountId === accountId);
  const [{ tasks }, deliveries] = await Promise.all([
    store.listTasks(taskQuery(accountId, { limit: 10_000 })),
    Promise.all(keys.map((key) => store.listDeliveries(key))),
  ]);
  return { tasks, deliveries: deliveries.flatMap((ofTask) => ofTask ?? []) };
}

/** Counts the same from tasks and attempts, one by one. */
function recount(logs: readonly Log[]): Counted {
  const tally = new Recount();
  for (const { tasks, deliveries } of logs) {
    for (const { createdAt, completedAt, state } of tasks) {
      tally.count(createdAt, "posted");
      if (state === "queued" || state === "running") continue;
      assert(completedAt !== null);
      tally.count(completedAt, state);
    }
    for (const delivery of deliveries) tally.countDelivery(delivery);
  }
  return tally.end();
}

const NO_HOST: HostSums = { attempts: 0, succeeded: 0, givenUp: 0, refused: 0, retrying: 0 };

class Recount {
  readonly durations: Record<string, number> = {};
  readonly hosts: Record<string, HostSums> = {};
  readonly #steps: Record<number, Sums> = {};

  count(time: number, word: (typeof WORDS)[number], by = 1): void {
    const at = time - (time % MINUTE_MS);
    const step = (this.#steps[at] ??= noSums());
    step[word] += by;
  }

  countDelivery({ url, state, attempts }: Delivery): void {
    const { host } = new URL(url);
    if (state === "given_up") this.#ofHost(host).givenUp++;
    if (state === "refused") this.#ofHost(host).refused++;
    const isOpen = state === "scheduled" || state === "in_flight";
    if (isOpen && retryOf(attempts, attempts.length - 1) > 0) this.#ofHost(host).retrying++;
    for (const [place, { outcome, startedAt, endedAt }] of attempts.entries()) {
      if (outcome === null || outcome === "interrupted") continue;
      assert(startedAt !== null && endedAt !== null);
      const ofHost = this.#ofHost(host);
      const key = `${endedAt - (endedAt % MINUTE_MS)} ${bucketOf(endedAt - startedAt)}`;
      this.durations[key] = (this.durations[key] ?? 0) + 1;
      ofHost.attempts++;
      const retry = retryOf(attempts, place);
      if (retry === 0) this.count(endedAt, "firstAttempts");
      if (outcome === "delivered") {
        ofHost.succeeded++;
        this.count(endedAt, "delivered");
        if (retry === 0) this.count(endedAt, "firstDelivered");
      } else if (outcome === "refused") this.count(endedAt, "refused");
      else if (retry === WAITS_MS.length) this.count(endedAt, "givenUp");
      else this.count(endedAt, "posted", 0);
    }
  }

  #ofHost(host: string): HostSums {
    return (this.hosts[host] ??= { ...NO_HOST });
  }

  end(): Counted {
    const { durations, hosts } = this;
    const sums = noSums();
    for (const step of Object.values(this.#steps)) {
      for (const word of WORDS) sums[word] += step[word];
    }
    return { steps: this.#steps, durations, hosts, sums };
  }
}

function noSums(): Sums {
  const tasks = { posted: 0, completed: 0, failed: 0, cancelled: 0 };
  return { ...tasks, firstAttempts: 0, firstDelivered: 0, delivered: 0, givenUp: 0, refused: 0 };
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
