import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import type { TaskState } from "../../src/domain/task.ts";
import type { Store } from "../../src/store/store.ts";
import {
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  RETENTION_MS,
  seedAccount,
  T0,
  taskQuery,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

const STATES = ["queued", "running", "completed", "failed", "cancelled"] as const;

/** The part of the conformance suite that is about how many tasks an account has in each state. */
export function exerciseCounts(open: OpenStore): void {
  test("counts nothing for an account without tasks", async (t) => {
    const { store } = await open(t);
    const accountId = await seedAccount(store);

    assert.deepEqual(await countsOf(store, accountId), {
      ...{ queued: 0, running: 0, completed: 0, failed: 0, cancelled: 0 },
    });
  });

  // Steps of one round are asked for at once, so that they share batches; some of them are rejected.
  test("counts what a listing shows, whatever happened to the tasks", async (t) => {
    const { store, again } = await open(t);
    const accounts = [await seedAccount(store, "ada"), await seedAccount(store, "bob")];
    const world: World = { store, accounts, ids: [], seqs: [] };
    const undone = new Set<string>();

    const property = fc.asyncProperty(fc.array(ROUND, { maxLength: 12 }), async (rounds) => {
      for (const round of rounds) {
        const steps = round.map(({ kind, pick }) => STEPS[kind](world, pick));
        for (const result of await Promise.allSettled(steps)) {
          if (result.status === "rejected") undone.add(String(result.reason));
        }
      }
      for (const accountId of accounts) {
        assert.deepEqual(await countsOf(store, accountId), await listedOf(store, accountId));
      }
    });
    await fc.assert(property, { numRuns: 30, seed: 7 });

    const reasons = [...undone].map((reason) => /BLOB|UNIQUE|nothing/.exec(reason)?.[0]);
    assert.deepEqual(new Set(reasons), new Set(["BLOB", "UNIQUE", "nothing"]));
    const before = await Promise.all(accounts.map((id) => countsOf(store, id)));
    for (const state of STATES)
      assert(
        before.some((counts) => counts[state] > 0),
        state,
      );
    await store.close();
    const reopened = await again();
    assert.deepEqual(await Promise.all(accounts.map((id) => countsOf(reopened, id))), before);
  });
}

/** What the steps so far have made. */
interface World {
  readonly store: Store;
  readonly accounts: readonly number[];
  readonly ids: { readonly accountId: number; readonly id: string }[];
  readonly seqs: number[];
}

/** Everything that changes a task's state; `pick` chooses what it is done to. */
const STEPS = {
  async post({ store, accounts, ids }, pick) {
    const accountId = chosen(accounts, pick);
    const later = newTask({ startAt: T0 + 1000 });
    const accepted = [newTask(), newTask(), ...(pick % 3 === 0 ? [later] : [])];
    const refused = pick % 2 === 0 ? [newRefusedTask()] : [];
    await store.insertTasks(newPost(accountId, accepted, { refused }));
    ids.push(...accepted.map(({ id }) => ({ accountId, id })));
  },
  // Fails after some of its tasks were inserted, and takes none of its neighbours along.
  async postTwins({ store, accounts }, pick) {
    const [task, twin] = [newTask(), newTask()];
    await store.insertTasks(newPost(chosen(accounts, pick), [task, twin, twin]));
  },
  // Fails after the task's row was changed: no text is stored as bytes.
  async finishBroken({ store, seqs }, pick) {
    const broken = { ...newFinish({ seq: chosen(seqs, pick) }), resultText: new Uint8Array(1) };
    await store.finishTask(broken as unknown as Parameters<Store["finishTask"]>[0]);
  },
  async claim({ store, seqs }, pick) {
    const claimed = await store.claimTasks({ type: "echo", max: (pick % 4) + 1, now: T0 });
    seqs.push(...claimed.map(({ seq }) => seq));
  },
  async finish({ store, seqs }, pick) {
    const state = pick % 2 === 0 ? "completed" : "failed";
    const endedAt = T0 + (pick % 5);
    const finish = newFinish({ seq: chosen(seqs, pick) }, { state, endedAt });
    await Promise.all([store.finishTask(finish), store.finishTask(finish)]);
  },
  async retry({ store, seqs }, pick) {
    await store.retryTask({ seq: chosen(seqs, pick), startAt: T0 + 1000 });
  },
  async requeue({ store, seqs }, pick) {
    await store.requeueTasks({ seq: pick % 10 === 0 ? "all" : chosen(seqs, pick) });
  },
  async release({ store }, pick) {
    await store.releaseDelayed({ now: T0 + 1000, max: (pick % 3) + 1 });
  },
  async cancel({ store, ids }, pick) {
    const { accountId, id } = chosen(ids, pick);
    const times = { cancelledAt: T0, expiresAt: T0 + RETENTION_MS };
    await store.cancelTask({ accountId, id, ...times });
  },
  async erase({ store }, pick) {
    await store.eraseExpired({ now: T0 + RETENTION_MS + 2, max: (pick % 3) + 1 });
  },
} satisfies Record<string, (world: World, pick: number) => Promise<void>>;

const ROUND = fc.array(
  fc.record({
    // The table's own keys.
    kind: fc.constantFrom(...(Object.keys(STEPS) as (keyof typeof STEPS)[])),
    pick: fc.nat(1000),
  }),
  { minLength: 1, maxLength: 8 },
);

/** One of them; rejects the step that has nothing to choose from. */
function chosen<Value>(values: readonly Value[], pick: number): Value {
  const value = values[pick % values.length];
  if (value === undefined) throw new Error("there is nothing to choose from");
  return value;
}

type Counts = Readonly<Record<TaskState, number>>;

async function countsOf(store: Store, accountId: number): Promise<Counts> {
  const data = await store.findAccountData({ accountId, revokedMax: 0 });
  assert(data !== null);
  return data.taskCounts;
}

async function listedOf(store: Store, accountId: number): Promise<Counts> {
  const counted = STATES.map(async (state) => {
    const { tasks, next } = await store.listTasks(taskQuery(accountId, { state, limit: 10_000 }));
    assert.equal(next, null);
    return [state, tasks.length] as const;
  });
  // The states of the table, each once.
  return Object.fromEntries(await Promise.all(counted)) as Counts;
}
