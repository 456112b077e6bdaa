import assert from "node:assert/strict";
import { test } from "node:test";

import { DAY_MS } from "../../src/domain/clock/duration.ts";
import type { Idempotency, Store, TaskPost } from "../../src/store/store.ts";
import {
  newAccessRequest,
  newAccount,
  newPost,
  newRefusedTask,
  newStale,
  newTask,
  T0,
  taskQuery,
  pluck,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

export function exerciseIdempotency(open: OpenStore): void {
  test("a used key returns its stored response and stores no task", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const idempotency = newIdempotency();
    const post = newPost(accountId, [newTask()], { refused: [newRefusedTask()], idempotency });
    assert.deepEqual(await store.insertTasks(post), { kind: "inserted" });

    // Another body returns the hash of the first body, too.
    for (const bodyHash of [idempotency.bodyHash, "other"]) {
      const again = { ...idempotency, bodyHash, answerText: "another answer" };
      assert.deepEqual(await insertOne(store, accountId, { idempotency: again }), {
        kind: "kept",
        bodyHash: idempotency.bodyHash,
        answerText: idempotency.answerText,
      });
    }

    assert.equal(await countTasks(store, accountId), 2);
  });

  test("one of many posts with one key is stored, concurrent or later", async (t) => {
    const { store, again, accountId } = await withAccount(open(t));
    const stores = [store, await again()];
    const posts = Array.from({ length: 20 }, (_, i) => {
      const idempotency = newIdempotency({ bodyHash: `body ${i}`, answerText: `answer ${i}` });
      return insertOne(stores[i % 2] ?? store, accountId, { idempotency });
    });

    const outcomes = await Promise.all(posts);

    const first = outcomes.findIndex(({ kind }) => kind === "inserted");
    const kept = { kind: "kept", bodyHash: `body ${first}`, answerText: `answer ${first}` };
    const expected = outcomes.map((_, i) => (i === first ? { kind: "inserted" } : kept));
    assert.deepEqual(outcomes, expected);
    assert.equal(await countTasks(store, accountId), 1);
    assert.deepEqual(await insertOne(store, accountId, { idempotency: newIdempotency() }), kept);
  });

  test("keys of different accounts and keys that differ in case are different", async (t) => {
    const { store, ada, bob } = await withAccounts(open(t));
    const posts = [
      [ada, "key"],
      [bob, "key"],
      [ada, "KEY"],
      [ada, "key "],
    ] as const;

    for (const [accountId, key] of posts) {
      const idempotency = newIdempotency({ key, answerText: `${accountId} ${key}` });
      const outcome = await insertOne(store, accountId, { idempotency });
      assert.deepEqual(outcome, { kind: "inserted" });
    }
    for (const [accountId, key] of posts) {
      const kept = await store.findKeptAnswer({ accountId, key, steadyAt: T0 });
      assert.equal(kept?.answerText, `${accountId} ${key}`);
    }
  });

  test("an expired response is replaced by the new one", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const old = newIdempotency({ answerText: "old" });
    await insertOne(store, accountId, { idempotency: old });
    const find = (steadyAt: number) => store.findKeptAnswer({ accountId, key: old.key, steadyAt });
    const { bodyHash } = old;
    assert.deepEqual(await find(T0), { bodyHash, answerText: "old" });
    assert.equal(await find(T0 + 1), null);

    const createdAt = T0 + DAY_MS + 1;
    const now = { steadyAt: T0 + 1, eraseAt: createdAt };
    const fresh = newIdempotency({ bodyHash: "new", answerText: "new", ...now });
    const outcome = await insertOne(store, accountId, { createdAt, idempotency: fresh });

    assert.deepEqual(outcome, { kind: "inserted" });
    assert.deepEqual(await find(createdAt), { bodyHash: "new", answerText: "new" });
    assert.equal(await countTasks(store, accountId), 2);
  });

  test("a post that cannot be stored has no stored response and no task", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const idempotency = newIdempotency();
    const twin = newTask();

    await assert.rejects(store.insertTasks(newPost(accountId, [twin, twin], { idempotency })));

    const { key } = idempotency;
    assert.equal(await store.findKeptAnswer({ accountId, key, steadyAt: T0 }), null);
    assert.deepEqual(await insertOne(store, accountId, { idempotency }), { kind: "inserted" });
  });

  test("expired responses are erased oldest first, up to the limit", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    for (const order of [3, 1, 5, 2, 4]) {
      const idempotency = newIdempotency({ key: `key ${order}`, eraseAt: T0 + order });
      await insertOne(store, accountId, { idempotency });
    }
    const erase = (answersBefore: number, max: number) =>
      store.eraseStale(newStale({ answersBefore, decidedBefore: T0 + DAY_MS, max }));
    const left = async () => {
      const keys = [1, 2, 3, 4, 5].map((order) => `key ${order}`);
      const found = await Promise.all(
        keys.map((key) => store.findKeptAnswer({ accountId, key, steadyAt: T0 })),
      );
      return keys.filter((_, i) => found[i] !== null);
    };

    assert.equal(await erase(T0 + 1, 10), 0);
    assert.equal(await erase(T0 + 5, 2), 2);
    assert.deepEqual(await left(), ["key 3", "key 4", "key 5"]);
    assert.equal(await erase(T0 + 5, 10), 2);
    assert.deepEqual(await left(), ["key 5"]);
    assert.equal(await countTasks(store, accountId), 5);
  });

  test("requests decided before a time are erased, pending requests are not", async (t) => {
    const { store } = await open(t);
    const requests = [1, 2, 3, 4].map(() => newAccessRequest());
    for (const request of requests) await store.insertAccessRequest(request);
    const [approved, denied, late] = requests;
    assert(approved && denied && late);
    const account = newAccount({ login: "eve" });
    await store.approveAccessRequest({ id: approved.id, decidedAt: T0 + 1, account });
    await store.denyAccessRequest({ id: denied.id, decidedAt: T0 + 2 });
    await store.denyAccessRequest({ id: late.id, decidedAt: T0 + 3 });
    const left = async () =>
      pluck(await store.listAccessRequests({ which: "all", limit: 10 }), "id");
    const erase = (decidedBefore: number, max: number) =>
      store.eraseStale(newStale({ answersBefore: T0, decidedBefore, max }));

    assert.equal(await erase(T0 + 1, 10), 0);
    assert.equal(await erase(T0 + 3, 1), 1);
    assert.deepEqual(
      await left(),
      requests.slice(1).map(({ id }) => id),
    );
    assert.equal(await erase(T0 + 3, 10), 1);
    assert.equal(await erase(T0 + DAY_MS, 10), 1);
    assert.deepEqual(
      await left(),
      requests.slice(3).map(({ id }) => id),
    );
    assert.equal((await store.listAccounts()).length, 1);
  });

  test("pending requests from before a time and from the future are erased", async (t) => {
    const { store } = await open(t);
    const requests = [1, 2, 3, DAY_MS].map((ms) => newAccessRequest({ createdAt: T0 + ms }));
    for (const request of requests) await store.insertAccessRequest(request);
    const left = async () =>
      (await store.listAccessRequests({ which: "all", limit: 10 })).map(
        ({ createdAt }) => createdAt - T0,
      );
    const erase = (overrides: Parameters<typeof newStale>[0]) =>
      store.eraseStale(newStale({ answersBefore: T0, ...overrides }));

    assert.equal(await erase({ pendingBefore: T0 + 1 }), 0);
    assert.equal(await erase({ pendingBefore: T0 + 3, max: 1 }), 1);
    assert.deepEqual(await left(), [2, 3, DAY_MS]);
    assert.equal(await erase({ pendingBefore: T0 + 3, recordsAfter: T0 + DAY_MS - 1 }), 2);
    assert.deepEqual(await left(), [3]);
  });
}

function newIdempotency(overrides: Partial<Idempotency> = {}): Idempotency {
  return {
    key: "key",
    bodyHash: "hash",
    answerText: "{}",
    steadyAt: T0,
    eraseAt: T0,
    ...overrides,
  };
}

function insertOne(
  store: Store,
  accountId: number,
  overrides: Partial<TaskPost> = {},
): ReturnType<Store["insertTasks"]> {
  return store.insertTasks(newPost(accountId, [newTask()], overrides));
}

async function countTasks(store: Store, accountId: number): Promise<number> {
  return (await store.listTasks(taskQuery(accountId))).tasks.length;
}
