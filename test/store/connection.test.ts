import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { Worker } from "node:worker_threads";

import Database from "better-sqlite3";

import { schemaSql } from "../../src/assets.ts";
import { openReader, openWriter } from "../../src/store/sqlite/machine/connection.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { newAccount, newDatabaseFile, openTestStore } from "../helpers/store.ts";

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

test("a statement keeps what looks like a parameter in a literal or a comment", (t) => {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  const select = connection.prepare("SELECT 'it''s a@b?' AS text, @a AS \"c?\" -- @d's ?");
  assert.deepEqual(select.get({ a: "x" }), { text: "it's a@b?", "c?": "x" });
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

async function assertLeftAlone(file: string, message: RegExp): Promise<void> {
  const [before, mode] = [readFileSync(file), modeOf(file)];

  assert.throws(() => openWriter(file), message);
  for (const writer of ["thread", "inline"] as const) {
    await assert.rejects(openSqliteStore({ file, writer, backlogMax: 1 }), message);
  }

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

// The daemon and a command of the operator may both create the file. Many rounds, because
// the moments of a conflict are short.
test("several writers create one new file concurrently", async (t) => {
  const file = newDatabaseFile(t);
  const threads = Array.from({ length: 3 }, () => {
    const thread = new Worker(new URL("./opening-thread.ts", import.meta.url));
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
