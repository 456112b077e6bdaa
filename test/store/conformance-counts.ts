import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { HOUR_MS, MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { bucketOf } from "../../src/domain/stats/time-series.ts";
import type { Task } from "../../src/domain/task/task.ts";
import {
  ANSWER_OVERHEAD_BYTES,
  ATTEMPT_OVERHEAD_BYTES,
  TASK_OVERHEAD_BYTES,
} from "../../src/store/common/large-task.ts";
import type { Delivery, FoundTask, Scope, Store, WorkCounts } from "../../src/store/store.ts";
import { RETENTION_MS, T0, giveUpAll, pluck, taskQuery } from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";
import {
  ALL_REASONS,
  HOSTS,
  WAITS_MS,
  type World,
  idempotencyKeyOf,
  liveRound,
  newWorld,
  randomLife,
  retryOf,
} from "./random-life.ts";

const EVER = { from: 0, to: T0 + 10 * RETENTION_MS };

const NO_WORK: WorkCounts = {
  ...{ queued: 0, delayed: 0, running: 0, completed: 0, failed: 0, cancelled: 0 },
  ...{ ready: 0, retrying: 0, undelivered: 0, bytes: 0 },
};

/** Counts and traffic against a recount of all tasks and attempts, one by one. */
export function exerciseCounts(open: OpenStore): void {
  // Steps of a round share batches, and some fail: their batch runs again.
  test("counts and traffic equal the logs after random writes", async (t) => {
    const { store, again } = await open(t);
    const world = await newWorld(store);
    const undone = new Set<string>();
    const assertAsLogged = async (): Promise<readonly Counted[]> => {
      const logged = await recountAll(world);
      for (const [place, scope] of scopesOf(world).entries()) {
        assert.deepEqual(await read(store, scope), logged[place]);
      }
      return logged;
    };

    let runs = 0;
    const property = fc.asyncProperty(randomLife({ erases: false }), async (rounds) => {
      for (const round of rounds) {
        for (const reason of await liveRound(world, round)) undone.add(reason);
      }
      // A recount reads every task: on a server it takes longer than a life.
      if (++runs % 3 === 0) await assertAsLogged();
    });
    // The order of steps may differ: lives continue until every event has happened.
    let lives = 0;
    do await fc.assert(property, { numRuns: 30, seed: 9 + lives++ });
    while (lives < 10 && (await assertAsLogged()).some(({ sums }) => lacksSome(sums)));

    for (const { sums, durations, hosts } of await assertAsLogged()) {
      assert(!lacksSome(sums) && Object.keys(durations).length > 10);
      assert.deepEqual(Object.keys(hosts).sort(), HOSTS);
    }
    assert.deepEqual(undone, ALL_REASONS);
    await giveUpAll(store);
    const before = await Promise.all(scopesOf(world).map((scope) => read(store, scope)));
    while ((await store.eraseExpired({ now: EVER.to, max: 100 })).looked > 0) continue;
    await store.close();
    const reopened = await again();
    const after = await Promise.all(scopesOf(world).map((scope) => read(reopened, scope)));
    for (const [place, scope] of scopesOf(world).entries()) {
      const { counts: _, ...kept } = after[place] ?? assert.fail();
      const { counts: _before, hosts, ...all } = before[place] ?? assert.fail();
      // Erased deliveries are neither given up nor refused.
      const left = Object.entries(hosts).map(([host, sums]) => {
        return [host, { ...sums, givenUp: 0, refused: 0 }] as const;
      });
      assert.deepEqual(kept, { ...all, hosts: Object.fromEntries(left) });
      assert.deepEqual(await foldedSums(reopened, scope), all.sums);
    }
  });

  test("counts equal the lists after random writes and erasures", async (t) => {
    const { store, again } = await open(t);
    const world = await newWorld(store);
    const scopes = scopesOf(world);
    assert.deepEqual(await store.countWork(null), NO_WORK);
    const seen = new Set<string>();
    const countsFrom = (from: Store) => Promise.all(scopes.map((scope) => from.countWork(scope)));

    const property = fc.asyncProperty(randomLife({ erases: true }), async (rounds) => {
      for (const round of rounds) await liveRound(world, round);
      const counts = await countsFrom(store);
      assert.deepEqual(counts, pluck(await recountAll(world), "counts"));
      for (const [place, accountId] of world.accounts.entries()) {
        const {
          ready: _r,
          retrying: _t,
          undelivered: _u,
          bytes: _b,
          delayed,
          ...states
        } = counts[place] ?? assert.fail();
        const data = await store.findAccountData({ accountId, revokedMax: 0 });
        // A delayed task is queued for clients.
        assert.deepEqual(data?.taskCounts, { ...states, queued: states.queued + delayed });
      }
      for (const [word, count] of Object.entries(counts.at(-1) ?? {}))
        if (count > 0) seen.add(word);
    });
    await fc.assert(property, { numRuns: 40, seed: 2 });

    assert.deepEqual([...seen].sort(), Object.keys(NO_WORK).sort());
    const before = await countsFrom(store);
    await store.close();
    const reopened = await again();
    assert.deepEqual(await countsFrom(reopened), before);
    await giveUpAll(reopened);
    while ((await reopened.eraseExpired({ now: EVER.to, max: 100 })).looked > 0) continue;
    const left = await countsFrom(reopened);
    assert.deepEqual(left, pluck(await recountAll({ ...world, store: reopened }), "counts"));
    const { ready, retrying, undelivered } = left.at(-1) ?? assert.fail();
    assert.deepEqual([ready, retrying, undelivered], [0, 0, 0]);
  });
}

/** The recounts of each account, and of all. */
async function recountAll(world: World): Promise<readonly Counted[]> {
  const logs = await Promise.all(world.accounts.map((id) => readLog(world, id)));
  return [...logs.map((log) => recount([log])), recount(logs)];
}

/** Current counts, counts by step, durations of attempts, counts by host, and the sum of all steps. */
interface Counted {
  readonly counts: WorkCounts;
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

function lacksSome(sums: Sums): boolean {
  return WORDS.some((word) => sums[word] === 0);
}

async function read(store: Store, scope: Scope): Promise<Counted> {
  const { steps, durations } = await store.findTraffic({ scope, ...EVER });
  const { hosts, hasMore } = await store.listHostTraffic({ scope, since: 0, limit: 100 });
  assert.equal(hasMore, false);
  const tally = new Recount(await store.countWork(scope));
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

/** All tasks, deliveries and stored responses of an account. */
interface Log {
  readonly tasks: readonly FoundTask[];
  readonly delayed: number;
  readonly deliveries: readonly Delivery[];
  readonly answers: readonly string[];
}

async function readLog({ store, ids }: World, accountId: number): Promise<Log> {
  const all = { limit: 10_000 };
  const { tasks, next } = await store.listTasks(taskQuery(accountId, all));
  const delayed = await store.searchTasks(taskQuery(accountId, { ...all, states: ["delayed"] }));
  assert.deepEqual([next, delayed.next], [null, null]);
  const keys = tasks.map(({ id }) => ({ accountId, id }));
  const found = await Promise.all(keys.map((key) => store.findTask(key)));
  const deliveries = await Promise.all(keys.map((key) => store.listDeliveries(key)));
  const own = ids.filter((key) => key.accountId === accountId).map(idempotencyKeyOf);
  const kept = await Promise.all(
    own.map((key) => store.findKeptAnswer({ accountId, key, steadyAt: T0 })),
  );
  return {
    tasks: found.map((task) => task ?? assert.fail()),
    delayed: delayed.tasks.length,
    deliveries: deliveries.flatMap((ofTask) => ofTask ?? []),
    answers: kept.flatMap((answer) => (answer === null ? [] : [answer.answerText])),
  };
}

/** Counts the same from tasks and attempts, one by one. */
function recount(logs: readonly Log[]): Counted {
  const tally = new Recount();
  const { counts } = tally;
  for (const { tasks, delayed, deliveries, answers } of logs) {
    for (const found of tasks) {
      const { createdAt, completedAt, state } = found.task;
      counts[state]++;
      if (found.isReady) counts.ready++;
      counts.bytes += TASK_OVERHEAD_BYTES + bytesOf(found.task);
      tally.count(createdAt, "posted");
      if (state === "queued" || state === "running") continue;
      assert(completedAt !== null);
      tally.count(completedAt, state);
    }
    counts.queued -= delayed;
    counts.delayed += delayed;
    for (const delivery of deliveries) tally.countDelivery(delivery);
    for (const answer of answers) counts.bytes += ANSWER_OVERHEAD_BYTES + answer.length;
  }
  return tally.end();
}

function bytesOf({ dataText, inputText, resultText, errorText }: Task): number {
  return Buffer.byteLength([dataText, inputText, resultText, errorText].join(""));
}

const NO_HOST: HostSums = { attempts: 0, succeeded: 0, givenUp: 0, refused: 0, retrying: 0 };

class Recount {
  readonly counts: Record<keyof WorkCounts, number>;
  readonly durations: Record<string, number> = {};
  readonly hosts: Record<string, HostSums> = {};
  readonly #steps: Record<number, Sums> = {};

  constructor(counts: WorkCounts = NO_WORK) {
    this.counts = { ...counts };
  }

  count(time: number, word: (typeof WORDS)[number], by = 1): void {
    const at = time - (time % MINUTE_MS);
    const step = (this.#steps[at] ??= noSums());
    step[word] += by;
  }

  countDelivery({ url, state, attempts }: Delivery): void {
    const { host } = new URL(url);
    const { counts } = this;
    if (state === "given_up") this.#ofHost(host).givenUp++;
    if (state === "refused") this.#ofHost(host).refused++;
    if (state === "given_up" || state === "refused") counts.undelivered++;
    const isOpen = state === "scheduled" || state === "in_flight";
    if (isOpen && retryOf(attempts, attempts.length - 1) > 0) {
      this.#ofHost(host).retrying++;
      counts.retrying++;
    }
    for (const [place, attempt] of attempts.entries()) {
      const { outcome, startedAt, endedAt, error, responseExcerpt, refusal, retryAfter } = attempt;
      const refusalText = refusal === null ? "" : JSON.stringify(refusal);
      const texts = [error, responseExcerpt, refusalText, retryAfter].join("");
      if (endedAt !== null) counts.bytes += ATTEMPT_OVERHEAD_BYTES + Buffer.byteLength(texts);
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
    const { counts, durations, hosts } = this;
    const sums = noSums();
    for (const step of Object.values(this.#steps)) {
      for (const word of WORDS) sums[word] += step[word];
    }
    return { counts, steps: this.#steps, durations, hosts, sums };
  }
}

function noSums(): Sums {
  const tasks = { posted: 0, completed: 0, failed: 0, cancelled: 0 };
  return { ...tasks, firstAttempts: 0, firstDelivered: 0, delivered: 0, givenUp: 0, refused: 0 };
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}
