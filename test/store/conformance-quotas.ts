import assert from "node:assert/strict";
import { test } from "node:test";

import type { PostQuota } from "../../src/domain/account/quota.ts";
import type { Store, TaskPost } from "../../src/store/store.ts";
import {
  claimOne,
  NEW_TASK_BYTES,
  newAccount,
  newFinish,
  newKeyToStore,
  newPost,
  newRefusedTask,
  newStale,
  newTask,
  NO_OWN_LIMITS,
  NO_QUOTA,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  T0,
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
    assert.equal(await countTasks(store, ada), 7);
    assert.equal(await countTasks(store, bob), 9);

    await store.close();
    const reopened = await again();
    await Promise.all([posts(reopened, ada, byBytes), posts(reopened, bob, byOpen)].flat());
    assert.equal(await countTasks(reopened, ada), 7);
    assert.equal(await countTasks(reopened, bob), 9);
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
