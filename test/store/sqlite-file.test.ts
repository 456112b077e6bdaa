import assert from "node:assert/strict";
import { once } from "node:events";
import {
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { Worker } from "node:worker_threads";

import Database from "better-sqlite3";

import { schemaSql } from "../../src/assets.ts";
import {
  type Connection,
  openReader,
  openWriter,
} from "../../src/store/sqlite/machine/connection.ts";
import {
  placeOf,
  refuseDamagedFile,
  restorePart,
} from "../../src/store/sqlite/machine/file-check.ts";
import { SCHEMA_VERSION, makeSchema } from "../../src/store/sqlite/machine/schema.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { StoreError, type StoreErrorKind } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import {
  RETENTION_MS,
  T0,
  claimAttempt,
  claimOne,
  giveUpAll,
  newAccount,
  newAttemptRecord,
  newDatabaseFile,
  newFinish,
  newPost,
  newRefusedTask,
  newTask,
  openTestStore,
  seedAccount,
  seedFinished,
  taskQuery,
  webhook,
} from "../helpers/store.ts";

function modeOf(file: string): string {
  return (statSync(file).mode & 0o777).toString(8);
}

/** The files beside the database, without the folder's and the database's own name. */
function filesBeside(file: string): readonly string[] {
  return readdirSync(dirname(file)).map((name) => name.slice(basename(file).length));
}

function setUmask(t: TestContext): void {
  const umask = process.umask(0o022);
  t.after(() => process.umask(umask));
}

test("a connection has the settings for durability, references and space", (t) => {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  const read = (name: string): unknown => connection.pragma(name, { simple: true });
  const values = {
    ...{ journal_mode: "wal", synchronous: 2, foreign_keys: 1, auto_vacuum: 2, page_size: 4096 },
    ...{ busy_timeout: 5000, secure_delete: 1, trusted_schema: 0, cell_size_check: 1 },
    ...{ temp_store: 2, wal_autocheckpoint: 0, application_id: 0x70626b64 },
  };
  for (const [name, value] of Object.entries(values)) assert.equal(read(name), value, name);
});

test("a reader cannot write", (t) => {
  const file = newDatabaseFile(t);
  const writer = openWriter(file);
  t.after(() => writer.close());
  writer.exec("CREATE TABLE x (a)");
  const reader = openReader(file);
  t.after(() => reader.close());
  assert.deepEqual(reader.prepare("SELECT a FROM x").all(), []);
  assert.throws(() => reader.exec("INSERT INTO x VALUES (1)"), { code: "SQLITE_READONLY" });
  assert.throws(() => openReader(`${file}.none`), /cannot open the database/);
});

test("database files are readable only by their owner", async (t) => {
  setUmask(t);
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file, writer: "thread" });
  await store.createAccount(newAccount());
  const modes = filesBeside(file).map((name) => `${name} ${modeOf(file + name)}`);
  assert.deepEqual(modes.sort(), [" 600", "-shm 600", "-wal 600"]);
});

test("an opened copy becomes readable only by its owner", (t) => {
  setUmask(t);
  const file = newDatabaseFile(t);
  openWriter(file).close();
  const content = readFileSync(file);
  const restored = newDatabaseFile(t);
  writeFileSync(restored, content, { mode: 0o644 });
  openWriter(restored).close();
  assert.equal(modeOf(restored), "600");
});

const foreign = [
  ["a table", "CREATE TABLE x (a); INSERT INTO x VALUES (1)", /database of another program/],
  ["an application id", "PRAGMA application_id = 7", /database of another program/],
] as const;
for (const [what, sql, message] of foreign) {
  test(`a database of another program, found by ${what}, is refused unchanged`, async (t) => {
    setUmask(t);
    const file = newDatabaseFile(t);
    const other = new Database(file);
    other.exec(sql);
    other.close();
    await assertLeftAlone(file, message);
  });
}

const texts = { short: "hello\n", long: "This is a diary.\n".repeat(1000) };
for (const [length, text] of Object.entries(texts)) {
  test(`a ${length} file of another format is refused unchanged`, async (t) => {
    setUmask(t);
    const file = newDatabaseFile(t);
    writeFileSync(file, text);
    await assertLeftAlone(file, /not a database/);
  });
}

async function assertRefused(
  file: string,
  message: RegExp,
  writer: "thread" | "inline" = "inline",
): Promise<void> {
  await assert.rejects(openSqliteStore({ file, writer, backlogMax: 1 }), message);
}

async function assertLeftAlone(file: string, message: RegExp): Promise<void> {
  const [before, mode] = [readFileSync(file), modeOf(file)];

  assert.throws(() => openWriter(file), message);
  for (const writer of ["thread", "inline"] as const) await assertRefused(file, message, writer);

  assert.deepEqual(readFileSync(file), before);
  assert.deepEqual(filesBeside(file), [""]);
  assert.equal(modeOf(file), mode, "its mode has changed");
}

test("the refusal of a folder or a missing folder names the path", (t) => {
  const folder = dirname(newDatabaseFile(t));
  for (const file of [folder, join(folder, "none", "test.db")]) {
    assert.throws(
      () => openWriter(file),
      (error: Error) => error.message.includes(`cannot open the database ${file}`),
    );
  }
});

/** A thread that opens files for writing, and replies `opened` or the error. */
const OPEN_FILES = `
  const { parentPort } = require("node:worker_threads");
  parentPort.on("message", async (file) => {
    const { openWriter } = await import(${moduleText("connection")});
    const { makeSchema } = await import(${moduleText("schema")});
    try {
      const connection = openWriter(file);
      makeSchema(connection);
      connection.close();
      parentPort.postMessage("opened");
    } catch (error) {
      parentPort.postMessage(String(error));
    }
  });`;

function moduleText(name: string): string {
  return JSON.stringify(import.meta.resolve(`../../src/store/sqlite/machine/${name}.ts`));
}

// The daemon and a command of the operator may both create the file. Many rounds, because
// the moments of a conflict are short.
test("several writers create one new file concurrently", async (t) => {
  const file = newDatabaseFile(t);
  const threads = Array.from({ length: 3 }, () => {
    const thread = new Worker(OPEN_FILES, { eval: true });
    t.after(() => thread.terminate());
    return thread;
  });
  const open = async (thread: Worker, name: string): Promise<unknown> => {
    const answer = once(thread, "message");
    thread.postMessage(name);
    return (await answer)[0];
  };
  await Promise.all(threads.map((thread) => once(thread, "online")));

  for (let round = 0; round < 40; round++) {
    const answers = threads.map((thread) => open(thread, `${file}${round}`));
    assert.deepEqual(await Promise.all(answers), ["opened", "opened", "opened"]);
  }
});

// SQLite compiles again if a parameter may change the plan, which is most of the cost of a look-up.
test("a statement is compiled once: its plan does not depend on its parameters", (t) => {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  connection.exec(schemaSql);
  const { source } = connection.prepare("SELECT id FROM tasks WHERE account_seq = @id LIMIT ?");
  assert.equal(source, "SELECT id FROM tasks WHERE account_seq = +@id LIMIT +?");
});

function versionOf(connection: Connection): unknown {
  return connection.pragma("user_version", { simple: true });
}

function tables(connection: Connection): readonly unknown[] {
  const sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
  return connection.prepare(sql).pluck().all();
}

test("a new file has the whole schema and its version", async (t) => {
  const file = newDatabaseFile(t);
  await openTestStore(t, { file });
  const connection = new Database(file, { readonly: true });
  t.after(() => connection.close());
  assert.equal(versionOf(connection), SCHEMA_VERSION);
  assert.ok(tables(connection).length > 20);
});

test("a file of a newer version is refused unchanged", async (t) => {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  await store.createAccount(newAccount());
  await store.close();
  const connection = new Database(file);
  t.after(() => connection.close());
  const newer = SCHEMA_VERSION + 1;
  connection.pragma(`user_version = ${newer}`);

  await assertRefused(
    file,
    new RegExp(`${file} has schema version ${newer}.*newer postbackd`, "s"),
  );

  assert.equal(versionOf(connection), newer);
  const logins = connection.prepare("SELECT login FROM accounts").pluck().all();
  assert.deepEqual(logins, ["ada"]);
});

test("a file from before 0.1.0 is refused unchanged", async (t) => {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  connection.exec("CREATE TABLE notes (a); INSERT INTO notes VALUES ('one')");
  connection.pragma("user_version = 10");

  const remedy = "move it aside and start with a new file";
  await assertRefused(file, new RegExp(`${file} has schema version 10 .*: ${remedy}`));

  assert.equal(versionOf(connection), 10);
  assert.deepEqual(tables(connection), ["notes"]);
});

function openNew(t: TestContext): Connection {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  makeSchema(connection);
  return connection;
}

const ENTRY = "INSERT INTO audit (at, actor_kind, action) VALUES (1, 'user', 'key.created')";

test("an audit entry is never changed, and the oldest is erased first", (t) => {
  const connection = openNew(t);
  for (let i = 0; i < 4; i++) connection.exec(ENTRY);
  assert.throws(
    () => connection.exec("UPDATE audit SET action = 'x' WHERE seq = 1"),
    /append-only/,
  );
  assert.throws(() => connection.exec("DELETE FROM audit WHERE seq = 2"), /from its beginning/);
  connection.exec("DELETE FROM audit WHERE seq <= 2");
  connection.exec(ENTRY);
  const left = connection.prepare("SELECT seq FROM audit ORDER BY seq").pluck().all();
  assert.deepEqual(left, [3, 4, 5]);
});

const changes: readonly (readonly [what: string, sql: string, named: string])[] = [
  ["without one of its tables", "DROP TABLE sign_in_links", "table sign_in_links"],
  ["without one of its indexes", "DROP INDEX tasks_queued", "index tasks_queued"],
  ["with a column more", "ALTER TABLE workers ADD COLUMN more TEXT", "table workers"],
  [
    "with a trigger on its tables",
    "CREATE TRIGGER t AFTER INSERT ON tasks BEGIN DELETE FROM tasks; END",
    "trigger t",
  ],
];
for (const [what, sql, named] of changes) {
  test(`a file ${what} is refused`, async (t) => {
    const file = newDatabaseFile(t);
    await (await openTestStore(t, { file })).close();
    const other = new Database(file);
    other.exec(sql);
    other.close();
    const fault = `${file} is damaged \\(${named} is not as`;
    await assertRefused(file, new RegExp(`${fault}.*backup restore COPY`, "s"));
  });
}

test("a file in which another program keeps tables of its own is opened", async (t) => {
  const file = newDatabaseFile(t);
  await (await openTestStore(t, { file })).close();
  const other = new Database(file);
  other.exec("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER); ANALYZE");
  other.close();
  const store = await openTestStore(t, { file });
  assert.equal(await store.createAccount(newAccount()), "created");
});

test("a restore that was broken off is found behind a link whose file is missing", (t) => {
  const file = newDatabaseFile(t);
  const folder = join(dirname(file), "elsewhere");
  mkdirSync(folder);
  const target = join(folder, "data.db");
  symlinkSync(join("elsewhere", "data.db"), file);
  refuseDamagedFile(file);
  assert.equal(placeOf(file), target);
  writeFileSync(restorePart(target), "");
  assert.throws(() => refuseDamagedFile(file), /a restore was broken off/);
});

test("links that lead in a circle are refused", (t) => {
  const file = newDatabaseFile(t);
  symlinkSync(file, file);
  assert.throws(() => refuseDamagedFile(file), /ELOOP: too many symbolic links/);
});

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
