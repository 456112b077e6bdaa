import assert from "node:assert/strict";
import { type TestContext, describe, test } from "node:test";

import { BatchRunner } from "../../src/store/sqlite/machine/batch.ts";
import { type Store, StoreError } from "../../src/store/store.ts";
import {
  RETENTION_MS,
  T0,
  giveUpAll,
  newEmptyDatabase,
  newFinish,
  newPost,
  newRefusedTask,
  newStale,
  newTask,
  newTaskId,
  openTestStore,
  postTask,
  retainedUntil,
  seedDelivery,
  seedFinished,
  taskQuery,
  webhook,
  withAccount,
} from "../helpers/store.ts";
import * as accounts from "./conformance-accounts.ts";
import * as clock from "./conformance-clock.ts";
import * as counts from "./conformance-counts.ts";
import * as deliveries from "./conformance-deliveries.ts";
import * as leases from "./conformance-leases.ts";
import * as listing from "./conformance-listing.ts";
import * as queue from "./conformance-queue.ts";
import * as quotas from "./conformance-quotas.ts";
import * as redelivery from "./conformance-redelivery.ts";
import * as sessions from "./conformance-sessions.ts";
import * as tasks from "./conformance-tasks.ts";
import * as traffic from "./conformance-traffic.ts";

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

/** The groups of the suite: the exports of its files by their names, as `exerciseLeases`. */
const GROUPS: Readonly<Record<string, (open: OpenStore) => void>> = {
  ...{
    ...accounts,
    ...clock,
    ...counts,
    ...deliveries,
    ...leases,
    ...listing,
    ...queue,
    ...quotas,
  },
  ...{ ...redelivery, ...sessions, ...tasks, ...traffic, exerciseUpkeep, exerciseWhole },
};

/** Holds an implementation of {@link Store} to every sentence of its comments; by default to all groups. */
export function exerciseStore(
  name: string,
  open: OpenStore,
  isExercised: (group: string, place: number) => boolean = () => true,
): void {
  for (const [place, [group, exercise]] of Object.entries(GROUPS).entries()) {
    const title = group.replace("exercise", "").replaceAll(/[A-Z]/g, (letter) => ` ${letter}`);
    if (isExercised(group, place)) describe(`${name}:${title.toLowerCase()}`, () => exercise(open));
  }
}

/** Opens stores in SQLite whose writes are done by a thread, or by the caller. */
export function openWith(writer: "thread" | "inline"): OpenStore {
  return async (t, options = {}) => {
    const file = await newEmptyDatabase(t);
    const again: OpenedStore["again"] = (limits = options) =>
      openTestStore(t, { ...limits, file, writer });
    return { store: await again(), again };
  };
}

// To start the threads of a store takes twice as long as most tests.
const WITH_THREADS: readonly string[] = [
  ...["exerciseListing", "exercisePosting", "exerciseWatch", "exerciseWhole"],
];

/** Half of the groups without threads, and half of {@link WITH_THREADS} with threads. */
export function exerciseSqlite(half: 0 | 1): void {
  copyMessages();
  exerciseStore("sqlite without threads", openWith("inline"), (_, place) => place % 2 === half);
  exerciseStore(
    "sqlite with threads",
    openWith("thread"),
    (group) => WITH_THREADS.indexOf(group) % 2 === half,
  );
}

/** From now on batches and replies are copied in this thread too: writes that no message can carry are rejected. */
function copyMessages(): void {
  const { run } = BatchRunner.prototype;
  BatchRunner.prototype.run = function (this: BatchRunner, operations) {
    return structuredClone(Reflect.apply(run, this, [structuredClone(operations)]));
  };
}

function exerciseUpkeep(open: OpenStore): void {
  test("expired tasks are erased with their deliveries, no others", async (t) => {
    const { store, accountId } = await withAccount(open(t));
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

  test("tasks that expired first are erased first, up to the limit", async (t) => {
    const { store, accountId } = await withAccount(open(t));
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

  // Erased pages are overwritten: a hundred large tasks in one step took seconds.
  test("one step erases few large tasks or stored responses, at least one", async (t) => {
    const { store, accountId } = await withAccount(open(t));
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

  test("the used bytes do not include erased tasks", async (t) => {
    const { store, accountId } = await withAccount(open(t));
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
  test("200 concurrent callers start each task and each attempt once", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const claimed: number[] = [];
    const sent: number[] = [];

    async function call(): Promise<void> {
      const task = await postTask(store, accountId, { postback: webhook("a.example") });
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

  test("a reopened store has all acknowledged data", async (t) => {
    const { store, again, accountId } = await withAccount(open(t));
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

    const reopened = await again();
    assert.deepEqual(await read(reopened), before);
    assert.equal(before.inFlight.length, 1);
    // In a shared store the earlier life of a node is an ended node.
    const ofOthers = await reopened.listInFlight({ of: "ended nodes" });
    assert.equal(ofOthers.length, reopened.cluster.isShared ? 1 : 0);
  });

  test("a close finishes earlier writes, refuses later ones, and may be repeated", async (t) => {
    const { store, again, accountId } = await withAccount(open(t));
    const post = () => store.insertTasks(newPost(accountId, [newTask()]));
    const posts = Array.from({ length: 300 }, post);
    const closes = [store.close(), store.close()];
    await assert.rejects(post(), { name: "StoreError", kind: "closed" });
    await Promise.all([...closes, ...posts]);
    const claimed = await (await again()).claimTasks({ type: "echo", max: 1000, now: T0 });
    assert.equal(claimed.length, 300);
    await store.close();
  });

  test("a closed store rejects every method with the kind closed", async (t) => {
    const { store } = await open(t);
    const methods = Object.entries(store).filter(
      ([name, method]) => typeof method === "function" && !ALWAYS.has(name),
    );
    await store.close();

    const ends = methods.map(async ([name, method]) => {
      const end = await Promise.resolve(method(ARGUMENTS[name] ?? ANYTHING)).then(
        () => "a value",
        kindOf,
      );
      return `${name}: ${end}`;
    });

    assert(methods.length > 100, `${methods.length} methods`);
    const others = (await Promise.all(ends)).filter((end) => !end.endsWith(": closed"));
    assert.deepEqual(others, []);
    assert.deepEqual([store.fault()?.kind, store.fault()?.isPassing], ["closed", false]);
  });
}

/** Methods that a closed store still has. */
const ALWAYS: ReadonlySet<string> = new Set([
  ...["watch", "fault", "shortage", "lookAtFile", "close", "hasScheduled"],
]);

const ARGUMENTS: Readonly<Record<string, unknown>> = {
  listAccessRequests: { which: "all", limit: 1 },
  findOldestQueued: ["echo"],
};

/** An argument of all other methods: an empty list, each of whose other fields is the same list. */
const ANYTHING: never[] = new Proxy<never[]>([], {
  get: (list, name) =>
    typeof name === "symbol" || name in list ? Reflect.get(list, name) : ANYTHING,
});

function kindOf(error: unknown): string {
  return error instanceof StoreError ? error.kind : String(error);
}
