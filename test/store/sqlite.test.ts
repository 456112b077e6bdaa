import assert from "node:assert/strict";
import { readFileSync, readdirSync, truncateSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";

import Database from "better-sqlite3";

import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { StoreError, type StoreErrorKind } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import {
  claimAttempt,
  claimOne,
  giveUpAll,
  leaseOne,
  newAttemptRecord,
  newDatabaseFile,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  newTaskId,
  openTestStore,
  RETENTION_MS,
  seedAccount,
  seedFinished,
  seedWorker,
  T0,
  taskQuery,
  webhook,
} from "../helpers/store.ts";

test("a NUL in a text stays there, though no rule lets one in", async (t) => {
  const store = await openTestStore(t, { file: newDatabaseFile(t) });
  const accountId = await seedAccount(store);
  const text = `"a\u0000b"`;
  const task = newTask({ inputText: text, dataText: `{"x":${text}}` });
  await store.insertTasks(newPost(accountId, [task]));
  const claimed = await claimOne(store);
  await store.finishTask(newFinish(claimed, { resultText: text, errorText: text }));

  const found = (await store.findTask({ accountId, id: task.id }))?.task;

  const texts = [claimed.inputText, found?.inputText, found?.resultText, found?.errorText];
  assert.deepEqual(texts, [text, text, text, text]);
  assert.equal(found?.dataText, `{"x":${text}}`);
});

test("an erased task leaves no row behind in any table", async (t) => {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  const accountId = await seedAccount(store);
  const hooks = { postback: webhook("a.example"), pingback: webhook("b.example") };
  const task = newTask({ ...hooks, inputText: "1", tag: "t" });
  await store.insertTasks(newPost(accountId, [task], { refused: [newRefusedTask()] }));
  await store.finishTask(newFinish(await claimOne(store)));
  await store.recordAttempt(newAttemptRecord(await claimAttempt(store)));
  const connection = new Database(file, { readonly: true });
  t.after(() => connection.close());
  const counts = (): Record<string, unknown> => {
    const tables = ["tasks", "task_inputs", "task_results", "deliveries", "attempts"];
    return Object.fromEntries(
      tables.map((table) => [
        table,
        connection.prepare(`SELECT count(*) FROM ${table}`).pluck().get(),
      ]),
    );
  };
  assert.deepEqual(counts(), {
    ...{ tasks: 2, task_inputs: 1, task_results: 2, deliveries: 2, attempts: 3 },
  });
  await giveUpAll(store);

  assert.equal((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 10 })).looked, 2);

  assert.deepEqual(counts(), {
    ...{ tasks: 0, task_inputs: 0, task_results: 0, deliveries: 0, attempts: 0 },
  });
  assert.deepEqual(connection.pragma("foreign_key_check"), []);
  assert.deepEqual(connection.pragma("integrity_check", { simple: true }), "ok");
});

test("an erased text is in none of the files that a closed store leaves", async (t) => {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  const accountId = await seedAccount(store);
  const task = newTask({ inputText: `"a-secret-in-an-input"` });
  await seedFinished(store, accountId, { tasks: [task] });

  await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 10 });
  await store.close();

  const folder = dirname(file);
  const holding = readdirSync(folder).filter((name) =>
    readFileSync(join(folder, name)).includes("a-secret-in-an-input"),
  );
  assert.deepEqual(holding, []);
});

for (const writer of ["thread", "inline"] as const) {
  // Whoever stops the daemon and copies this file has copied everything.
  test(`a closed store has everything in its one file (${writer})`, async (t) => {
    const file = newDatabaseFile(t);
    const store = await openTestStore(t, { file, writer });
    await store.listTasks(taskQuery(await seedAccount(store)));

    await store.close();

    assert.deepEqual(readdirSync(dirname(file)), [basename(file)]);
  });
}

for (const writer of ["thread", "inline"] as const) {
  test(`gives space back in steps that come to an end, and loses nothing by it (${writer})`, async (t) => {
    const store = await openTestStore(t, { file: newDatabaseFile(t), writer });
    const accountId = await seedAccount(store);
    const [kept, ...big] = Array.from({ length: 12 }, () =>
      newTask({ inputText: JSON.stringify("x".repeat(1_000_000)) }),
    );
    assert(kept !== undefined);
    await seedFinished(store, accountId, { tasks: big });
    await store.insertTasks(newPost(accountId, [kept]));
    while ((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 100 })).looked > 0)
      continue;

    let steps = 1;
    while ((await store.reclaimSpace()) === "more" && steps < 50) steps++;

    assert(steps > 1 && steps < 50, `${steps} steps`);
    const found = await store.findTask({ accountId, id: kept.id });
    // Compared here, because a failure would print a megabyte.
    assert(Buffer.from(found?.envelope?.bytes ?? []).includes(`"input":${kept.inputText}`));
  });
}

for (const state of ["absent", "empty"] as const) {
  test(`a file that was ${state} shrinks again after its tasks were erased`, async (t) => {
    const file = newDatabaseFile(t);
    if (state === "empty") writeFileSync(file, "");
    const store = await openTestStore(t, { file });
    const accountId = await seedAccount(store);
    const inputText = JSON.stringify("x".repeat(1_000_000));
    const tasks = Array.from({ length: 12 }, () => newTask({ inputText }));
    await seedFinished(store, accountId, { tasks });
    while ((await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 100 })).looked > 0)
      continue;

    let steps = 1;
    while ((await store.reclaimSpace()) === "more" && steps < 50) steps++;

    assert(steps < 50, "giving space back never comes to an end");
    const connection = new Database(file, { readonly: true });
    t.after(() => connection.close());
    const pages = Number(connection.pragma("page_count", { simple: true }));
    assert(pages < 1100, `${pages} pages are left of 3,000`);
  });
}

// What this is good for is in the tests of leases, which name a task by its number and its id.
test("the next task has the number of the newest one that was erased", async (t) => {
  const store = await openTestStore(t);
  const accountId = await seedAccount(store);
  await store.insertTasks(newPost(accountId, [newTask()]));
  const claimed = await claimOne(store);
  await store.finishTask(newFinish(claimed));
  await store.eraseExpired({ now: T0 + 2 * RETENTION_MS, max: 9 });

  await store.insertTasks(newPost(accountId, [newTask()]));

  assert.equal((await claimOne(store)).seq, claimed.seq);
});

test("no other node has held leases, run tasks or sent anything", async (t) => {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  const [accountId, workerId] = [await seedAccount(store), await seedWorker(store)];
  await store.insertTasks(newPost(accountId, [newTask()]));
  await leaseOne(store, workerId);
  await store.insertTasks(newPost(accountId, [newTask()]));
  await claimOne(store);
  await store.close();
  const reopened = await openTestStore(t, { file });
  const left = { of: "ended nodes", now: T0 } as const;

  assert.deepEqual(await reopened.resumeLeases(left), []);
  assert.equal(await reopened.requeueTasks(left), 0);
  assert.deepEqual(await reopened.listInFlight(left), []);
  assert.equal((await reopened.resumeLeases({ of: "earlier life", now: T0 })).length, 1);
});

test("a read from a damaged file rejects with a StoreError", async (t) => {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  const accountId = await seedAccount(store);
  await seedFinished(store, accountId, { tasks: Array.from({ length: 50 }, () => newTask()) });
  await store.close();
  const connection = new Database(file);
  connection.pragma("wal_checkpoint(TRUNCATE)");
  connection.close();
  const reopened = await openTestStore(t, { file });
  truncateSync(file, 4096);

  const found = reopened.findTask({ accountId, id: newTaskId() });

  await assert.rejects(found, (error) => {
    assert(error instanceof StoreError, `it rejects with ${String(error)}`);
    return true;
  });
});

test("a list of tasks from a damaged file rejects with a StoreError, for either writer", async (t) => {
  for (const writer of ["thread", "inline"] as const) {
    const file = newDatabaseFile(t);
    const store = await openTestStore(t, { file, writer });
    const accountId = await seedAccount(store);
    await seedFinished(store, accountId, { tasks: Array.from({ length: 50 }, () => newTask()) });
    await store.close();
    const reopened = await openTestStore(t, { file, writer });
    truncateSync(file, 4096);

    for (let i = 0; i < 2; i++) {
      const listed = reopened.listTasks(taskQuery(accountId));
      await assert.rejects(listed, { name: "StoreError", kind: "failed" });
    }
  }
});

test("a file that cannot be opened rejects the opening, for either writer", async (t) => {
  const file = newDatabaseFile(t);
  writeFileSync(file, "This is no database, and it is long enough for one.".repeat(100));

  for (const writer of ["thread", "inline"] as const) {
    await assert.rejects(openSqliteStore({ file, writer, backlogMax: 1 }), /not a database/);
    const nowhere = `${file}.d/test.db`;
    await assert.rejects(openSqliteStore({ file: nowhere, writer, backlogMax: 1 }), /cannot open/);
  }
});

test("a store in a file goes by the clock that it is opened with", async (t) => {
  const clock = createFakeClock();
  const file = newDatabaseFile(t);
  const store = await openSqliteStore({ file, writer: "inline", backlogMax: 1, clock });
  t.after(() => store.close());
  assert.equal(store.cluster.clock, clock);
});

test("a StoreError says which failures may pass", () => {
  const cases = {
    ...{ failed: false, closed: false, unknown: false },
    ...{ full: true, busy: true, overloaded: true, unreachable: true },
  } satisfies Record<StoreErrorKind, boolean>;

  for (const [kind, isPassing] of Object.entries(cases)) {
    // The keys of the table are the kinds.
    assert.equal(new StoreError(kind as StoreErrorKind, "x").isPassing, isPassing, kind);
  }
});
