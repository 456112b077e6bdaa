import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";

import Database from "better-sqlite3";

import { refuseDamagedFile } from "../../src/store/sqlite/machine/file-check.ts";
import { FileFault, type Store } from "../../src/store/store.ts";
import {
  T0,
  newAccount,
  newDatabaseFile,
  newFinish,
  newPost,
  newTask,
  openTestStore,
  seedAccount,
  seedFinished,
  webhook,
} from "../helpers/store.ts";

const PAGE = 4096;
const TASKS = 300;

let content: Promise<Buffer> | null = null;

/** A file of some hundred pages, at rest: its bytes. */
function newContent(t: TestContext): Promise<Buffer> {
  content ??= makeContent(t);
  return content;
}

async function makeContent(t: TestContext): Promise<Buffer> {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  const accountId = await seedAccount(store);
  const inputText = JSON.stringify("x".repeat(300));
  const postback = webhook("a.example");
  const tasks = Array.from({ length: TASKS }, () => newTask({ inputText, tag: "a", postback }));
  await store.insertTasks(newPost(accountId, tasks));
  const runs = await store.claimTasks({ type: "echo", max: TASKS, now: T0 });
  await Promise.all(runs.map((run) => store.finishTask(newFinish(run))));
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
    store = await openTestStore(t, { file });
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

test("a zeroed page or a changed byte of its head is found at the start or by a check", async (t) => {
  const content = await newContent(t);
  const [pages, random] = [content.length / PAGE, newRandom(7)];
  // Page 2 has the owners of the other pages.
  const chosen = [0, 1, ...Array.from({ length: 5 }, () => random(pages))];
  for (const page of chosen) {
    const damaged = Buffer.from(content).fill(0, page * PAGE, (page + 1) * PAGE);
    assert.notEqual(await verdictOn(t, damaged), "never", `page ${page} of ${pages}`);
  }
  for (let i = 0; i < 6; i++) {
    // The kind of the page, or the number of its cells.
    const at = (2 + random(pages - 2)) * PAGE + (i % 2) * 4;
    assert.notEqual(await verdictOn(t, flipped(content, at)), "never", `byte ${at}`);
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

interface Busy {
  readonly file: string;
  /** Posts tasks of together so many bytes, one post after the other. */
  post(bytes: number): Promise<void>;
  /** Copies the file, its -wal or both; returns the path of the copy. */
  copy(name: string, parts?: readonly string[]): string;
  /** A whole copy, as an operator makes one. */
  vacuumInto(name: string): string;
}

const POST_BYTES = 100_000;
// After a thousand pages the -wal is copied into the file and restarts.
const GENERATION_BYTES = 6_000_000;

async function startBusy(t: TestContext): Promise<Busy> {
  const file = newDatabaseFile(t);
  const folder = dirname(file);
  const store = await openTestStore(t, { file, writer: "thread" });
  const accountId = await seedAccount(store);
  return {
    file,
    async post(bytes) {
      const inputText = JSON.stringify("x".repeat(POST_BYTES));
      for (let posted = 0; posted < bytes; posted += POST_BYTES) {
        await store.insertTasks(newPost(accountId, [newTask({ inputText })]));
      }
    },
    copy(name, parts = ["", "-wal"]) {
      const to = join(folder, name);
      // In a process of its own: to close the file in this one gives up the store's locks.
      for (const part of parts) {
        assert.equal(spawnSync("cp", [file + part, to + part]).status, 0);
      }
      return to;
    },
    vacuumInto(name) {
      const to = join(folder, name);
      const connection = new Database(file, { readonly: true });
      connection.prepare("VACUUM INTO ?").run(to);
      connection.close();
      return to;
    },
  };
}

/** Puts a -wal beside a file. */
function pair(file: string, wal: string): string {
  rmSync(`${file}-wal`, { force: true });
  rmSync(`${file}-shm`, { force: true });
  assert.equal(spawnSync("cp", [`${wal}-wal`, `${file}-wal`]).status, 0);
  return file;
}

async function countTasks(t: TestContext, file: string): Promise<number> {
  refuseDamagedFile(file);
  const store = await openTestStore(t, { file });
  const data = await store.findAccountData({ accountId: 1, revokedMax: 1 });
  await store.close();
  return data?.taskCounts.queued ?? 0;
}

const FOREIGN = /-wal does not belong to .*move its -wal and -shm aside/;

test("a file and its own -wal are opened after a kill at any moment", async (t) => {
  const busy = await startBusy(t);
  for (let i = 0; i < 20; i++) {
    await busy.post(i % 2 === 0 ? 4 * POST_BYTES : 7 * POST_BYTES);
    refuseDamagedFile(busy.copy(`copy${i}.db`));
  }
});

test("a -wal of another time is refused with a copy of the file", async (t) => {
  const busy = await startBusy(t);
  const copies: string[] = [];
  for (let i = 0; i < 3; i++) {
    copies.push(busy.copy(`copy${i}.db`));
    await busy.post(GENERATION_BYTES);
  }
  for (const [i, file] of copies.entries()) {
    for (const [j, wal] of copies.entries()) {
      const both = pair(join(dirname(file), "pair.db"), wal);
      assert.equal(spawnSync("cp", [file, both]).status, 0);
      if (i === j) refuseDamagedFile(both);
      // A file may have the -wal that was copied into it.
      else if (i !== j + 1) assert.throws(() => refuseDamagedFile(both), FOREIGN, `${i} ${j}`);
    }
  }
});

test("an old -wal is refused with a restored copy, which opens without it", async (t) => {
  const busy = await startBusy(t);
  await busy.post(GENERATION_BYTES);
  const whole = busy.vacuumInto("whole.db");
  await busy.post(2 * GENERATION_BYTES);
  const old = busy.copy("old.db");
  const restored = pair(whole, old);
  const before = readFileSync(restored);
  assert.throws(() => refuseDamagedFile(restored), FOREIGN);
  assert.deepEqual(readFileSync(restored), before);
  rmSync(`${restored}-wal`);
  assert.ok((await countTasks(t, restored)) > 0);
});

test("a -wal of another database is refused, also with an empty file", async (t) => {
  const [one, other] = [await startBusy(t), await startBusy(t)];
  await one.post(POST_BYTES);
  await other.post(2 * GENERATION_BYTES);
  const [mine, theirs] = [one.copy("mine.db"), other.copy("theirs.db")];
  assert.throws(() => refuseDamagedFile(pair(mine, theirs)), FOREIGN);
  writeFileSync(mine, "");
  assert.throws(() => refuseDamagedFile(mine), FOREIGN);
});

test("a -wal with a torn end is opened, a -wal damaged before its end is refused", async (t) => {
  const busy = await startBusy(t);
  await busy.post(4 * POST_BYTES);
  const copy = busy.copy("copy.db");
  const content = readFileSync(`${copy}-wal`);
  const frames = Math.floor((content.length - 32) / 4120);
  const lastFrame = 32 + (frames - 1) * 4120;

  for (const bytes of [1, 100, 4120]) {
    truncateSync(`${copy}-wal`, content.length - bytes);
    refuseDamagedFile(copy);
  }
  for (const at of [lastFrame + 10, lastFrame + 2000]) {
    writeFileSync(`${copy}-wal`, flipped(content, at));
    refuseDamagedFile(copy);
  }
  for (const at of [0, 5, 9, 17, 25, 32 + 4120 + 1000, Math.floor(content.length / 2)]) {
    writeFileSync(`${copy}-wal`, flipped(content, at));
    assert.throws(() => refuseDamagedFile(copy), /-wal is damaged/, String(at));
  }
});

function flipped(content: Buffer, at: number): Buffer {
  const changed = Buffer.from(content);
  changed.writeUInt8(changed.readUInt8(at) ^ 0x20, at);
  return changed;
}

test("a file under concurrent writes is not refused as damaged", async (t) => {
  const busy = await startBusy(t);
  const script = `
    const { refuseDamagedFile } = await import(${JSON.stringify(new URL("../../src/store/sqlite/machine/file-check.ts", import.meta.url).href)});
    for (let i = 0; i < 150; i++) refuseDamagedFile(process.argv[1]);`;
  const args = ["--input-type=module", "-e", script, busy.file];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (part) => (said += String(part)));
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  let code: number | null | undefined;
  void ended.then((value) => (code = value));
  while (code === undefined) await busy.post(5 * POST_BYTES);

  assert.equal(code, 0, said);
});

test("a truncated file or an invalid header is refused", async (t) => {
  const busy = await startBusy(t);
  await busy.post(2 * GENERATION_BYTES);
  const whole = busy.vacuumInto("whole.db");
  const content = readFileSync(whole);
  const refused = /is damaged \(.*backup restore COPY/;

  for (const bytes of [1, 4096, content.length - 4096]) {
    writeFileSync(whole, content.subarray(0, content.length - bytes));
    assert.throws(() => refuseDamagedFile(whole), refused);
  }
  for (const at of [16, 18, 20, 21, 22, 23, 56]) {
    writeFileSync(whole, flipped(content, at));
    assert.throws(() => refuseDamagedFile(whole), refused, String(at));
  }
  writeFileSync(whole, content);
  refuseDamagedFile(whole);
  assert.equal(existsSync(`${whole}-wal`), false);
});
