import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { refuseDamagedFile } from "../../src/store/sqlite/machine/file-check.ts";
import { FileFault, type Store } from "../../src/store/store.ts";
import {
  newAccount,
  newDatabaseFile,
  newTask,
  openTestStore,
  seedAccount,
  seedFinished,
  T0,
  webhook,
} from "../helpers/store.ts";

const PAGE = 4096;
const TASKS = 300;

/** A file of some hundred pages, at rest: its bytes. */
async function newContent(t: TestContext): Promise<Buffer> {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  const accountId = await seedAccount(store);
  const inputText = JSON.stringify("x".repeat(300));
  const tasks = Array.from({ length: TASKS }, () =>
    newTask({ inputText, tag: "a", postback: webhook("a.example") }),
  );
  await seedFinished(store, accountId, { tasks });
  await store.close();
  return readFileSync(file);
}

/** How a damaged file is found out. */
async function verdictOn(t: TestContext, content: Buffer): Promise<"start" | "check" | "never"> {
  const file = newDatabaseFile(t);
  writeFileSync(file, content);
  let store: Store;
  try {
    refuseDamagedFile(file);
    store = await openTestStore(t, { file, writer: "thread" });
  } catch {
    return "start";
  }
  try {
    while ((await store.checkFile()) === "more");
  } catch (error) {
    assert(error instanceof FileFault, String(error));
  }
  const fault = store.fault();
  if (fault === null) return "never";
  assert(fault instanceof FileFault);
  assert.equal(fault.trouble.reason, "the database file is damaged");
  assert.match(fault.message, /stop the daemon, .* backup restore COPY/);
  await assert.rejects(store.createAccount(newAccount({ login: "late" })), fault);
  return "check";
}

/** The same numbers at every run. */
function newRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test("a zeroed page is found at the start or by a check", async (t) => {
  const content = await newContent(t);
  const [pages, random] = [content.length / PAGE, newRandom(7)];
  // Page 2 has the owners of the other pages.
  const chosen = [0, 1, ...Array.from({ length: 20 }, () => random(pages))];
  for (const page of chosen) {
    const damaged = Buffer.from(content).fill(0, page * PAGE, (page + 1) * PAGE);
    assert.notEqual(await verdictOn(t, damaged), "never", `page ${page} of ${pages}`);
  }
});

test("a check of an undamaged file finds no damage, also during writes", async (t) => {
  assert.equal(await verdictOn(t, await newContent(t)), "never");
  const store = await openTestStore(t, { writer: "thread" });
  const accountId = await seedAccount(store);
  const tasks = Array.from({ length: 50 }, () => newTask());
  const written = seedFinished(store, accountId, { tasks });
  while ((await store.checkFile()) === "more");
  await written;
  assert.equal(store.fault(), null);
});

const PAGE_OF_ACCOUNTS = { part: null, after: null, limit: 10, now: T0 };
for (const [what, meet] of [
  ["read", (store: Store) => store.listAccounts()],
  ["long read", (store: Store) => store.listAccountOverviews(PAGE_OF_ACCOUNTS)],
  ["write", (store: Store) => store.createAccount(newAccount({ login: "bob" }))],
] as const) {
  test(`damage found by a ${what} ends all acknowledgements`, async (t) => {
    const file = newDatabaseFile(t);
    await (await openTestStore(t, { file })).close();
    const before = new Database(file, { readonly: true });
    const find = "SELECT rootpage FROM sqlite_schema WHERE tbl_name = 'accounts'";
    const roots = before.prepare<[], number>(find).pluck().all();
    before.close();
    const content = readFileSync(file);
    for (const root of roots) content.fill(0xff, (root - 1) * PAGE, root * PAGE);
    writeFileSync(file, content);
    const store = await openTestStore(t, { file, writer: "thread" });

    await assert.rejects(meet(store), FileFault);

    assert.match(store.fault()?.message ?? "", /is damaged \(.*backup restore COPY/);
  });
}
