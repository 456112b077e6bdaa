import assert from "node:assert/strict";
import { test } from "node:test";

import type { PostQuota } from "../../src/domain/account/quota.ts";
import { DAY_MS } from "../../src/domain/clock/duration.ts";
import type { Idempotency, Store, TaskPost } from "../../src/store/store.ts";
import {
  NEW_TASK_BYTES,
  NO_OWN_LIMITS,
  NO_QUOTA,
  RETENTION_MS,
  T0,
  claimOne,
  newAccessRequest,
  newAccount,
  newFinish,
  newKeyToStore,
  newPost,
  newRefusedTask,
  newStale,
  newTask,
  pluck,
  retainedUntil,
  seedAccount,
  taskQuery,
  withAccount,
  withAccounts,
} from "../helpers/store.ts";
import type { OpenStore } from "./conformance.ts";

export function exerciseQuotas(open: OpenStore): void {
  test("a post up to the limit of bytes is stored, a post of one byte more is not", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const bytes = 2 * NEW_TASK_BYTES + '"ä"'.length + 1;
    const insert = (quota: Partial<PostQuota>) =>
      insertTwo(store, accountId, { quota: { ...NO_QUOTA, ...quota } });

    const asked = { quota: "bytes", used: 0, asked: bytes } as const;
    const one = bytes - 1;
    assert.deepEqual(await insert({ bytes: one }), { kind: "over quota", ...asked, limit: one });
    assert.equal((await store.countWork(accountId)).bytes, 0);
    assert.equal(await countTasks(store, accountId), 0);
    assert.deepEqual(await insert({ bytes }), { kind: "inserted" });
    assert.equal((await store.countWork(accountId)).bytes, bytes);

    const again = { kind: "over quota", ...asked, used: bytes, limit: 2 * bytes - 1 };
    assert.deepEqual(await insert({ bytes: 2 * bytes - 1 }), again);
    const share = { ...again, quota: "shareBytes" };
    assert.deepEqual(await insert({ shareBytes: 2 * bytes - 1 }), share);
    assert.deepEqual(await insert({ bytes: 2 * bytes, shareBytes: 2 * bytes }), {
      kind: "inserted",
    });
    assert.equal(await countTasks(store, accountId), 4);
  });

  test("open tasks, also delayed and running ones, are stored up to the limit", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const quota = { ...NO_QUOTA, openTasks: 3 };
    const post = (...tasks: Parameters<typeof newPost>[1]) =>
      store.insertTasks(newPost(accountId, tasks, { quota }));
    const excess = { kind: "over quota", quota: "openTasks", limit: 3, used: 3, asked: 1 };

    await post(newTask());
    const running = await claimOne(store);
    const cancelled = newTask();
    assert.deepEqual(await post(newTask({ startAt: T0 + 5000 }), cancelled, newTask()), {
      ...excess,
      ...{ used: 1, asked: 3 },
    });
    assert.equal(
      (await post(newTask({ startAt: T0 + 5000 }), cancelled)).kind,
      "inserted",
      "one, and two, are three",
    );
    assert.deepEqual(await post(newTask()), excess);
    const refused = newPost(accountId, [], { refused: [newRefusedTask()], quota });
    assert.equal((await store.insertTasks(refused)).kind, "inserted", "it is not open");

    await store.finishTask(newFinish(running));
    assert.equal((await post(newTask())).kind, "inserted");
    assert.deepEqual(await post(newTask()), excess);
    const times = { cancelledAt: T0, ...retainedUntil(T0 + RETENTION_MS) };
    await store.cancelTask({ accountId, id: cancelled.id, ...times });
    assert.equal((await post(newTask())).kind, "inserted");
    assert.deepEqual(await post(newTask()), excess);
  });

  test("a hundred concurrent posts keep the limits of each account, also after a restart", async (t) => {
    const { store, again, ada, bob } = await withAccounts(open(t));
    const posts = (to: Store, accountId: number, quota: PostQuota) =>
      Array.from({ length: 100 }, () => to.insertTasks(newPost(accountId, [newTask()], { quota })));
    const byBytes = { ...NO_QUOTA, bytes: 7 * NEW_TASK_BYTES };
    const byOpen = { ...NO_QUOTA, openTasks: 9 };

    await Promise.all([posts(store, ada, byBytes), posts(store, bob, byOpen)].flat());
    assert.deepEqual([await countTasks(store, ada), await countTasks(store, bob)], [7, 9]);

    await store.close();
    const reopened = await again();
    await Promise.all([posts(reopened, ada, byBytes), posts(reopened, bob, byOpen)].flat());
    assert.deepEqual([await countTasks(reopened, ada), await countTasks(reopened, bob)], [7, 9]);
  });

  test("a result over the limit is stored, and posts are refused until tasks are erased", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const resultText = JSON.stringify("x".repeat(1000));
    const bytes = NEW_TASK_BYTES + 500;
    const post = () =>
      store.insertTasks(newPost(accountId, [newTask()], { quota: { ...NO_QUOTA, bytes } }));

    assert.equal((await post()).kind, "inserted");
    const claimed = await claimOne(store);
    await store.finishTask(newFinish(claimed, { resultText }));
    const found = await store.findTask({ accountId, id: claimed.id });
    assert.equal(found?.task.resultText, resultText);
    const used = NEW_TASK_BYTES + resultText.length;
    assert.equal((await store.countWork(accountId)).bytes, used);
    const outcome = await post();
    assert.equal(outcome.kind === "over quota" && outcome.used, used);

    assert.equal((await store.eraseExpired({ now: T0 + 1000 + RETENTION_MS, max: 9 })).looked, 1);
    assert.equal((await store.countWork(accountId)).bytes, 0);
    assert.equal((await post()).kind, "inserted");
  });

  test("a stored response counts as bytes until it is replaced or erased", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const bytes = async () => (await store.countWork(accountId)).bytes;
    const keep = (answerText: string, at: number, quota = NO_QUOTA) => {
      const times = { steadyAt: at, eraseAt: at + 10 };
      const idempotency = { key: "k", bodyHash: "h", answerText, ...times };
      return store.insertTasks(newPost(accountId, [newTask()], { idempotency, quota }));
    };

    const small = { ...NO_QUOTA, bytes: NEW_TASK_BYTES + 1000 };
    assert.equal((await keep("ä".repeat(1000), T0, small)).kind, "over quota");
    assert.equal(await bytes(), 0);
    await keep("ä".repeat(1000), T0);
    const first = (await bytes()) - NEW_TASK_BYTES;
    assert(first >= 2000 && first < 2600, `${first}`);
    await keep("ä".repeat(100), T0 + 11);
    assert.equal((await bytes()) - 2 * NEW_TASK_BYTES, first - 1800, "it took the other's place");

    assert.equal(await store.eraseStale(newStale({ answersBefore: T0 + 22 })), 1);
    assert.equal(await bytes(), 2 * NEW_TASK_BYTES);
  });

  test("a stored response is returned over the limit, and a refused post stores none", async (t) => {
    const { store, accountId } = await withAccount(open(t));
    const idempotency = { key: "k", bodyHash: "h", answerText: "{}", steadyAt: T0, eraseAt: T0 };
    const post = (openTasks: number) =>
      insertTwo(store, accountId, { idempotency, quota: { ...NO_QUOTA, openTasks } });
    assert.equal((await post(1)).kind, "over quota");
    assert.equal(await store.findKeptAnswer({ accountId, ...idempotency }), null);
    assert.equal((await post(2)).kind, "inserted");
    assert.deepEqual(await post(1), { kind: "kept", bodyHash: "h", answerText: "{}" });
    assert.equal(await countTasks(store, accountId), 2);
  });

  test("limits of an account are changed one by one, and every process reads them immediately", async (t) => {
    const { store, again } = await open(t);
    const firstKey = newKeyToStore();
    await store.createAccount(newAccount({ login: "ada", firstKey }));
    await seedAccount(store, "bob");
    const session = { hash: "s", keyId: firstKey.keyId, createdAt: T0, sessionsMax: 9 };
    await store.createSession(session);
    const beside = await again();
    const seen = async (by: Store) => {
      const page = await by.listAccountOverviews({ part: "ada", after: null, limit: 1, now: T0 });
      const all = [
        (await by.findKeyHolder(firstKey.hash))?.ownLimits,
        (await by.findAccount("ada"))?.ownLimits,
        (await by.findSession("s"))?.holder?.ownLimits,
        page.accounts[0]?.ownLimits,
      ];
      for (const each of all) assert.deepEqual(each, all[0]);
      return all[0];
    };
    assert.deepEqual(await seen(store), NO_OWN_LIMITS);

    const change = (limits: object) => beside.changeLimits({ login: "ada", limits });
    const first = { ...NO_OWN_LIMITS, bytes: 5000, openTasks: 0 };
    assert.deepEqual(await change({ bytes: 5000, openTasks: 0 }), first);
    assert.deepEqual(await seen(store), first);
    const second = { ...first, bytes: null, requestsPerMinute: 3, tasksPerMinute: 4 };
    assert.deepEqual(
      await change({ bytes: null, requestsPerMinute: 3, tasksPerMinute: 4 }),
      second,
    );
    assert.deepEqual(await seen(store), second);
    assert.deepEqual(await seen(beside), second);
    assert.deepEqual(await change({}), second);

    assert.deepEqual((await store.findAccount("bob"))?.ownLimits, NO_OWN_LIMITS);
    assert.equal(await store.changeLimits({ login: "eve", limits: { bytes: 1 } }), null);
  });

  test("the store reports whether several accounts exist", async (t) => {
    const { store, again } = await open(t);
    assert.equal(await store.hasSeveralAccounts(), false);
    await seedAccount(store, "ada");
    assert.equal(await store.hasSeveralAccounts(), false);
    await seedAccount(await again(), "bob");
    assert.equal(await store.hasSeveralAccounts(), true);
    await store.setAccountDisabled({ login: "bob", disabledAt: T0 });
    assert.equal(await store.hasSeveralAccounts(), true);
  });
}

/** Two tasks that take two new ones' bytes and four. */
function insertTwo(store: Store, accountId: number, overrides: Partial<TaskPost>) {
  const tasks = [newTask({ inputText: '"ä"' }), newTask()];
  return store.insertTasks(newPost(accountId, tasks, overrides));
}

async function countTasks(store: Store, accountId: number): Promise<number> {
  return (await store.listTasks(taskQuery(accountId, { limit: 1000 }))).tasks.length;
}

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

    assert.deepEqual([await erase(T0 + 1, 10), await erase(T0 + 5, 2)], [0, 2]);
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

    assert.deepEqual([await erase(T0 + 1, 10), await erase(T0 + 3, 1)], [0, 1]);
    assert.deepEqual(
      await left(),
      requests.slice(1).map(({ id }) => id),
    );
    assert.deepEqual([await erase(T0 + 3, 10), await erase(T0 + DAY_MS, 10)], [1, 1]);
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
