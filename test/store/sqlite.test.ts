import assert from "node:assert/strict";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
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
  newAttemptRecord,
  newDatabaseFile,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  openTestStore,
  RETENTION_MS,
  seedAccount,
  seedFinished,
  T0,
  taskQuery,
  webhook,
} from "../helpers/store.ts";

test("an erased task leaves no row in any table", async (t) => {
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

test("an erased text is in no file of a closed store", async (t) => {
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
  // A copy of this file after a stop is complete.
  test(`a closed store has everything in its one file (${writer})`, async (t) => {
    const file = newDatabaseFile(t);
    const store = await openTestStore(t, { file, writer });
    await store.listTasks(taskQuery(await seedAccount(store)));
    await store.close();
    assert.deepEqual(readdirSync(dirname(file)), [basename(file)]);
  });
}

for (const state of ["absent", "empty"] as const) {
  test(`a file that was ${state} before shrinks after its tasks were erased`, async (t) => {
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

test("a store in a file uses the given clock", async (t) => {
  const clock = createFakeClock();
  const file = newDatabaseFile(t);
  const store = await openSqliteStore({ file, writer: "inline", backlogMax: 1, clock });
  t.after(() => store.close());
  assert.equal(store.cluster.clock, clock);
});

test("the kind of a StoreError decides whether it may pass", () => {
  const cases = {
    ...{ failed: false, closed: false, unknown: false },
    ...{ full: true, busy: true, overloaded: true, unreachable: true },
  } satisfies Record<StoreErrorKind, boolean>;
  for (const [kind, isPassing] of Object.entries(cases)) {
    // The keys of the table are the kinds.
    assert.equal(new StoreError(kind as StoreErrorKind, "x").isPassing, isPassing, kind);
  }
});
