import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";

import fc from "fast-check";

import { findFaults } from "../../../scripts/kit/postgres-faults.ts";
import { HOUR_MS } from "../../../src/domain/clock/duration.ts";
import type { LeaseEnd, LeasedTask, Store } from "../../../src/store/store.ts";
import { askDatabase, openNode, openPair } from "../../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../../helpers/postgres.ts";
import {
  LEASE_MS,
  RETENTION_MS,
  T0,
  endLease,
  giveUpAll,
  newExpiry,
  newLeaseClaim,
  newLeaseEnd,
  newPost,
  newTask,
  newTaskCancels,
  seedAccount,
  seedWorker,
} from "../../helpers/store.ts";
import { exerciseLeaseModel } from "../conformance-leases.ts";
import { ALL_REASONS, type World, liveRound, newWorld, randomLife } from "../random-life.ts";

describe("two nodes that share a database", { skip: reasonToSkipPostgres() }, () => {
  test("counts and traffic are right after random writes of both nodes", async (t) => {
    await liveAtBoth(t, { erases: false });
  });

  test("counts are right after random writes and erasures of both nodes", async (t) => {
    const { url, store } = await liveAtBoth(t, { erases: true });
    await giveUpAll(store);
    while ((await store.eraseExpired({ now: T0 + 9 * RETENTION_MS, max: 100 })).looked > 0)
      continue;
    assert.deepEqual(await findFaults(url, { erases: true }), []);
  });

  describe("leases with calls at both nodes", () =>
    exerciseLeaseModel(async (t) => {
      const { stores } = await openTwo(t);
      return { store: inTurn(stores), again: () => assert.fail("not opened again") };
    }));
});

/** Runs random writes at both nodes concurrently and checks the database. */
async function liveAtBoth(t: TestContext, { erases }: { readonly erases: boolean }) {
  const { url, stores } = await openTwo(t);
  const [store] = stores;
  const worlds = await sharedWorlds(stores);
  const workerId = await seedWorker(store);
  const life: Life = { worlds, workerId, leases: [], mark: null, seen: new Map() };
  const reasons = new Set<string>();

  const rounds = fc.tuple(randomLife({ erases }), otherLife(erases));
  const property = fc.asyncProperty(rounds, async ([steps, others]) => {
    for (const [i, round] of steps.entries()) {
      const ofRound = others.slice(2 * i, 2 * i + 2);
      for (const reason of await liveTogether(life, round, ofRound)) reasons.add(reason);
    }
    assert.deepEqual(await findFaults(url, { erases }), []);
    for (const [word, count] of Object.entries(await store.countWork(null))) see(life, word, count);
  });
  const words = Object.keys(await store.countWork(null));
  const wanted = [...words, ...Object.keys(erases ? ALL_OTHERS : OTHERS)];
  const missed = () => wanted.filter((what) => (life.seen.get(what) ?? 0) <= 2);
  // The faster node decides what happens: lives continue until every event has happened.
  for (let seed = 4; seed < 10; seed++) {
    await fc.assert(property, { numRuns: 40, seed, endOnFailure: true });
    if (missed().length === 0 && reasons.size === ALL_REASONS.size) break;
  }
  assert.deepEqual(reasons, ALL_REASONS);
  assert.deepEqual(missed(), []);
  return { url, store };
}

async function liveTogether(
  life: Life,
  round: Parameters<typeof liveRound>[1],
  others: readonly OtherChoice[],
): Promise<readonly string[]> {
  const reasons = await Promise.all([
    ...life.worlds.map((world, n) =>
      liveRound(
        world,
        round.filter(({ pick }) => nodeOf(pick) === n),
      ),
    ),
    // No step is rejected.
    liveOthers(life, others).then(() => []),
  ]);
  return reasons.flat();
}

async function openTwo(t: TestContext) {
  const { url, first, second } = await openPair(t);
  return { url, stores: [first, second] as const };
}

/** The same tasks and attempts for both. So a node often ends a run of the other, without effect. */
async function sharedWorlds([one, other]: readonly [Store, Store]): Promise<
  readonly [World, World]
> {
  const world = await newWorld(one);
  return [world, { ...world, store: other }];
}

/** The node that takes a step: for each kind of choice that is made by the same number, either. */
function nodeOf(pick: number): number {
  return Math.imul(pick + 1, 0x9e3779b1) >>> 31;
}

/** A store each of whose methods is called at the next node. */
function inTurn(stores: readonly [Store, Store]): Store {
  let turn = 0;
  return new Proxy(stores[0], {
    get(_, name) {
      const store = stores[nodeOf(turn++)] ?? stores[0];
      const member: unknown = Reflect.get(store, name);
      return typeof member === "function" ? member.bind(store) : member;
    },
  });
}

interface Life {
  readonly worlds: readonly [World, World];
  readonly workerId: number;
  readonly leases: LeasedTask[];
  mark: number | null;
  /** How often the other steps had an effect. */
  readonly seen: Map<string, number>;
}

function see({ seen }: Life, what: string, times: number): void {
  seen.set(what, (seen.get(what) ?? 0) + times);
}

/** Other writes to the same tasks, by workers, the operator and the upkeep. They return the number of their effects. */
const OTHERS = {
  async lease({ leases, workerId }, store, pick) {
    const claim = newLeaseClaim(workerId, { max: (pick % 3) + 1 });
    return leases.push(...(await store.claimLeases(claim))) > 0 ? 1 : 0;
  },
  complete: (life, store, pick) => endSome(life, { store, pick }, {}),
  release: (life, store, pick) =>
    endSome(
      life,
      { store, pick },
      { how: "released", sequel: { kind: "requeue", isRunCounted: false } },
    ),
  fail: (life, store, pick) =>
    endSome(
      life,
      { store, pick },
      { how: "failed", sequel: { kind: "retry", startAt: T0 + 1000 } },
    ),
  reap: (life, store, pick) =>
    endSome(
      life,
      { store, pick },
      { how: "expired", sequel: { kind: "requeue", isRunCounted: true } },
    ),
  async beat({ leases, workerId }, store, pick) {
    const held = leases.slice(-(pick % 4));
    const answers = await store.extendLeases({ leases: held, workerId, now: T0 + 1 });
    return answers.filter((answer) => answer === "ok").length;
  },
  async cancelMany({ worlds: [{ ids, accounts }] }, store, pick) {
    const accountId = accounts[pick % accounts.length] ?? 0;
    const some = ids.slice(-(pick % 5)).map(({ id }) => id);
    const { queued, running } = await store.cancelTasks(newTaskCancels(accountId, { ids: some }));
    return queued.length + running.length;
  },
  async mark(life, store) {
    life.mark = (await store.markQueue({ servedMs: 1, everyMs: 1, queueMs: 1 })) ?? life.mark;
    return 1;
  },
  async expire({ mark }, store, pick) {
    if (mark === null) return 0;
    const { tasks } = await store.expireQueued(newExpiry(mark, { max: (pick % 3) + 1 }));
    return tasks.length;
  },
  shift: (_, store, pick) => store.shiftTimes({ after: T0, by: (pick % 7) - 3 }),
} satisfies Record<string, OtherStep>;

const ALL_OTHERS = {
  ...OTHERS,
  async eraseOne({ worlds: [{ ids }] }: Life, store: Store, pick: number) {
    const task = ids[ids.length - 1 - (pick % 8)];
    if (task === undefined) return 0;
    const outcome = await store.eraseTask({ id: task.id, hasWebhooks: pick % 2 === 0 });
    return outcome === "erased" ? 1 : 0;
  },
};

type OtherStep = (life: Life, store: Store, pick: number) => Promise<number>;

function otherLife(erases: boolean) {
  // The table's own keys.
  const kinds = Object.keys(erases ? ALL_OTHERS : OTHERS) as (keyof typeof ALL_OTHERS)[];
  const step = fc.record({ kind: fc.constantFrom(...kinds), pick: fc.nat(1000) });
  return fc.array(step, { minLength: 8, maxLength: 32, size: "max" });
}

interface OtherChoice {
  readonly kind: keyof typeof ALL_OTHERS;
  readonly pick: number;
}

async function liveOthers(life: Life, steps: readonly OtherChoice[]): Promise<void> {
  await Promise.all(
    steps.map(async ({ kind, pick }) => {
      const { store } = life.worlds[nodeOf(pick)] ?? life.worlds[0];
      see(life, kind, await ALL_OTHERS[kind](life, store, pick));
    }),
  );
}

/** Ends one of the leases, held or not. */
async function endSome(
  { leases }: Life,
  { store, pick }: { readonly store: Store; readonly pick: number },
  end: Partial<Pick<LeaseEnd, "how" | "sequel">>,
): Promise<number> {
  const lease = leases.slice(-RECENT)[pick % RECENT];
  if (lease === undefined) return 0;
  const { isNew } = await endLease(store, newLeaseEnd(lease, end), T0 + 2 * LEASE_MS);
  return isNew ? 1 : 0;
}

// Steps choose among the last leases: most earlier leases have ended.
const RECENT = 6;

describe("counts of stripes", { skip: reasonToSkipPostgres() }, () => {
  test("a host with zero counts over all stripes loses its rows after an hour", async (t) => {
    const url = await newDatabaseUrl(t);
    const store = await openNode(t, url);
    const accountId = await seedAccount(store);
    await askDatabase(
      url,
      `INSERT INTO host_counts (account_seq, host, stripe, given_up, retrying)
       SELECT ${accountId}, v.* FROM (VALUES ('gone.example', 0, 1, 2), ('gone.example', 1, -1, 0),
         ('gone.example', 2, 0, -2), ('left.example', 0, 1, 0), ('left.example', 1, 0, -1)) AS v`,
    );
    await store.insertTasks(newPost(accountId, [newTask()]));

    assert.equal(await store.foldTraffic({ minutesBefore: T0 + HOUR_MS }), "done");

    const rows = await askDatabase(url, "SELECT host, stripe FROM host_counts ORDER BY stripe");
    assert.deepEqual(rows, [
      { host: "left.example", stripe: 0 },
      { host: "left.example", stripe: 1 },
    ]);
  });
});
