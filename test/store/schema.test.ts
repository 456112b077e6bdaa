import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { openWriter, type Connection } from "../../src/store/sqlite/machine/connection.ts";
import { makeSchema, SCHEMA_VERSION } from "../../src/store/sqlite/machine/schema.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { newAccount, newDatabaseFile, openTestStore } from "../helpers/store.ts";

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
});

test("a file from before 0.1.0 is refused unchanged", async (t) => {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  connection.exec("CREATE TABLE notes (a); INSERT INTO notes VALUES ('one')");
  connection.pragma("user_version = 10");

  for (const writer of ["thread", "inline"] as const) {
    await assert.rejects(openSqliteStore({ file, writer, backlogMax: 1 }), {
      message: new RegExp(
        `${file} has schema version 10 .*: move it aside and start with a new file`,
      ),
    });
  }

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
