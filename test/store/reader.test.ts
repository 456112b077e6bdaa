import assert from "node:assert/strict";
import { test } from "node:test";

import type { ListTurn } from "../../src/store/common/list.ts";
import { newThreadReader } from "../../src/store/sqlite/reader.ts";
import {
  newDatabaseFile,
  newPost,
  newTask,
  newTaskId,
  openTestStore,
  seedAccount,
  taskQuery,
  pluck,
} from "../helpers/store.ts";

/** The first turn of an account's list. */
function turnOf(accountId: number): ListTurn {
  return { ...taskQuery(accountId), examineMax: 100, turnMax: 100, bytesLeft: null };
}

test("a lost thread rejects its reads, and the next read starts another thread", async (t) => {
  const file = newDatabaseFile(t);
  const reader = newThreadReader({ file });
  t.after(() => reader.close());

  // The file does not exist yet: the thread ends immediately.
  const lost = [1, 2].map((accountId) => reader.read("listTasks", turnOf(accountId)));
  for (const read of lost) {
    await assert.rejects(read, (error: Error) => {
      assert.match(String(error.cause), /cannot open the database/);
      return "kind" in error && error.kind === "failed";
    });
  }

  const store = await openTestStore(t, { file });
  const [accountId, task] = [await seedAccount(store), newTask()];
  await store.insertTasks(newPost(accountId, [task]));
  const { tasks } = await reader.read("listTasks", turnOf(accountId));
  assert.deepEqual(pluck(tasks, "id"), [task.id]);
});

test("a read that throws rejects alone, and the thread continues", async (t) => {
  const file = newDatabaseFile(t);
  await openTestStore(t, { file });
  const reader = newThreadReader({ file });
  t.after(() => reader.close());
  // @ts-expect-error: an account is a number.
  const broken = reader.read("listTasks", turnOf({}));
  await assert.rejects(broken, { name: "Error", message: /./ });
  assert.deepEqual((await reader.read("listTasks", turnOf(1))).tasks, []);
});

test("a reader may be closed before its first read, after a lost one, and twice", async (t) => {
  const reader = newThreadReader({ file: newDatabaseFile(t) });
  await reader.close();
  const lost = assert.rejects(reader.read("listTasks", turnOf(1)), { name: "StoreError" });
  await Promise.all([reader.close(), lost]);
  await reader.close();
});

test("a closing store returns the earlier lists and rejects later ones", async (t) => {
  const store = await openTestStore(t, { writer: "thread" });
  const accountId = await seedAccount(store);
  await store.insertTasks(newPost(accountId, [newTask()]));
  const lists = Array.from({ length: 20 }, () => store.listTasks(taskQuery(accountId)));
  const closed = store.close();
  await assert.rejects(store.listTasks(taskQuery(accountId)), { kind: "closed" });
  for (const { tasks } of await Promise.all(lists)) assert.equal(tasks.length, 1);
  await closed;
});

// A reply of a thread arrives in a later turn of the event loop.
test("a store with a writer thread lists tasks in a thread and reads single tasks directly", async (t) => {
  const store = await openTestStore(t, { writer: "thread" });
  const accountId = await seedAccount(store);
  const key = { accountId, id: newTaskId() };
  let longReads = 0;
  const long = [store.listTasks(taskQuery(accountId)), store.findTimeline({ scope: null, ...key })];
  const ended = long.map((read) => read.then(() => longReads++));
  for (let i = 0; i < 100; i++) await store.findTask(key);
  assert.equal(longReads, 0);
  await Promise.all(ended);
});
