import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { openWriter, type Connection } from "../../src/store/sqlite/connection.ts";
import {
  migrate,
  MIGRATIONS,
  SCHEMA_VERSION,
  type Migration,
  type MigrationPlan,
} from "../../src/store/sqlite/migrate.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { newAccount, newDatabaseFile, openTestStore } from "../helpers/store.ts";

const TO_2: Migration = { to: 2, sql: "ALTER TABLE notes ADD COLUMN b TEXT DEFAULT 'two'" };
const TO_3: Migration = { to: 3, sql: "UPDATE notes SET b = b || ' three'; CREATE TABLE more (c)" };

function planTo(version: number, migrations: readonly Migration[] = [TO_2, TO_3]): MigrationPlan {
  return { schemaSql: "CREATE TABLE notes (a TEXT)", version, migrations };
}

/** A file of version 1 with one note in it. */
function openVersion1(t: TestContext, file = newDatabaseFile(t)): Connection {
  const connection = openWriter(file);
  t.after(() => connection.close());
  migrate(connection, planTo(1));
  connection.exec("INSERT INTO notes (a) VALUES ('one')");
  return connection;
}

function versionOf(connection: Connection): unknown {
  return connection.pragma("user_version", { simple: true });
}

function notes(connection: Connection): unknown {
  return connection.prepare("SELECT * FROM notes").all();
}

function tables(connection: Connection): unknown {
  const sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
  return connection.prepare(sql).pluck().all();
}

test("gives a new file the whole schema and its version", async (t) => {
  const file = newDatabaseFile(t);
  await openTestStore(t, { file });
  const connection = new Database(file, { readonly: true });
  t.after(() => connection.close());

  assert.equal(versionOf(connection), SCHEMA_VERSION);
  assert.deepEqual(tables(connection), [
    ...["accounts", "attempts", "deliveries", "keys", "task_inputs", "task_results", "tasks"],
  ]);
});

test("has a step for every version up to the current one, in order", () => {
  const expected = Array.from({ length: SCHEMA_VERSION - 1 }, (_, i) => i + 2);

  assert.deepEqual(
    MIGRATIONS.map(({ to }) => to),
    expected,
  );
});

test("changes nothing in a file of the current version, and copies nothing", (t) => {
  const connection = openVersion1(t);
  const before = connection.pragma("schema_version", { simple: true });

  migrate(connection, planTo(1));

  assert.equal(connection.pragma("schema_version", { simple: true }), before);
  assert.deepEqual(notes(connection), [{ a: "one" }]);
  assert.equal(existsSync(`${connection.name}.v1.bak`), false);
});

test("brings an older file through each step after its own, after a copy of it", (t) => {
  const umask = process.umask(0o022);
  t.after(() => process.umask(umask));
  const connection = openVersion1(t);

  migrate(connection, planTo(3));

  assert.equal(versionOf(connection), 3);
  assert.deepEqual(notes(connection), [{ a: "one", b: "two three" }]);
  const copy = `${connection.name}.v1.bak`;
  assert.equal((statSync(copy).mode & 0o777).toString(8), "600");
  const old = new Database(copy, { readonly: true });
  t.after(() => old.close());
  assert.equal(versionOf(old), 1);
  assert.deepEqual(notes(old), [{ a: "one" }]);
  assert.equal(old.pragma("application_id", { simple: true }), 0x70626b64);
});

test("runs only the steps that a file lacks", (t) => {
  const connection = openVersion1(t);
  migrate(connection, planTo(2));

  migrate(connection, planTo(3));

  assert.deepEqual(notes(connection), [{ a: "one", b: "two three" }]);
  assert.equal(existsSync(`${connection.name}.v2.bak`), true);
});

test("leaves the file as it was when a step fails, also half-way through it", (t) => {
  const connection = openVersion1(t);
  const broken: Migration = { to: 3, sql: "CREATE TABLE more (c); INSERT INTO none VALUES (1)" };

  assert.throws(() => migrate(connection, planTo(3, [TO_2, broken])), /no such table: none/);

  assert.equal(versionOf(connection), 1);
  assert.equal(connection.inTransaction, false);
  assert.deepEqual(notes(connection), [{ a: "one" }]);
  assert.deepEqual(tables(connection), ["notes"]);
  migrate(connection, planTo(3));
  assert.deepEqual(notes(connection), [{ a: "one", b: "two three" }]);
});

test("leaves a new file empty when its schema cannot be made", (t) => {
  const connection = openWriter(newDatabaseFile(t));
  t.after(() => connection.close());
  const plan = { ...planTo(1), schemaSql: "CREATE TABLE notes (a); CREATE TABLE notes (a)" };

  assert.throws(() => migrate(connection, plan), /already exists/);

  assert.equal(versionOf(connection), 0);
  assert.deepEqual(tables(connection), []);
});

test("refuses a file from which no way leads to its version", (t) => {
  const connection = openVersion1(t);

  assert.throws(() => migrate(connection, planTo(3, [TO_3])), /no way leads from .* 1 to 3/);

  assert.equal(versionOf(connection), 1);
  assert.deepEqual(tables(connection), ["notes"]);
});

test("keeps the copy that an earlier try made", (t) => {
  const connection = openVersion1(t);
  const copy = `${connection.name}.v1.bak`;
  writeFileSync(copy, "the first copy");

  migrate(connection, planTo(3));

  assert.equal(readFileSync(copy, "utf8"), "the first copy");
});

test("refuses a file that is newer than the program, and leaves what is in it", async (t) => {
  const file = newDatabaseFile(t);
  const store = await openTestStore(t, { file });
  await store.createAccount(newAccount());
  await store.close();
  const connection = new Database(file);
  t.after(() => connection.close());
  const newer = SCHEMA_VERSION + 1;
  connection.pragma(`user_version = ${newer}`);

  for (const writer of ["thread", "inline"] as const) {
    await assert.rejects(
      openSqliteStore({ file, writer, backlogMax: 1 }),
      (error: Error) =>
        error.message.includes(`${file} has schema version ${newer}`) &&
        error.message.includes("newer postbackd"),
    );
  }

  assert.equal(versionOf(connection), newer);
  const logins = connection.prepare("SELECT login FROM accounts").pluck().all();
  assert.deepEqual(logins, ["ada"]);
  assert.deepEqual(
    readdirSync(dirname(file)).filter((name) => name.endsWith(".bak")),
    [],
  );
});
