import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test, type TestContext } from "node:test";

import { openWriter, type Connection } from "../../src/store/sqlite/machine/connection.ts";
import { migrate } from "../../src/store/sqlite/machine/migrate.ts";
import { MIGRATIONS } from "../../src/store/sqlite/migration-steps.ts";
import { newDatabaseFile, openTestStore, T0 } from "../helpers/store.ts";

const NINTH_SCHEMA = readFileSync(new URL("../fixtures/schema-v9.sql", import.meta.url), "utf8");

/** A file of the ninth version with a task, brought to the current one. */
async function openMigrated(t: TestContext): Promise<Connection> {
  const file = newDatabaseFile(t);
  const old = openWriter(file);
  migrate(old, { schemaSql: NINTH_SCHEMA, version: 9, migrations: [] });
  old.exec(`
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1);
    INSERT INTO tasks (id, account_seq, state, status_code, created_at, data_text)
    VALUES ('a', 1, 'queued', 40602, ${T0}, '{}');`);
  old.close();
  const store = await openTestStore(t, { file });
  await store.close();
  const connection = openWriter(file);
  t.after(() => connection.close());
  return connection;
}

test("a file of version 10 keeps its pauses, and its audit gets the words for them", async (t) => {
  const file = newDatabaseFile(t);
  const old = openWriter(file);
  const upToTen = MIGRATIONS.filter(({ to }) => to <= 10);
  migrate(old, { schemaSql: NINTH_SCHEMA, version: 9, migrations: [] });
  migrate(old, { schemaSql: NINTH_SCHEMA, version: 10, migrations: upToTen });
  old.exec(`
    INSERT INTO delivery_holds (host, since, held_by) VALUES ('a.example', 1, 'root');
    INSERT INTO audit (at, actor_kind, action)
    VALUES (1, 'user', 'delivery.held'), (2, 'user', 'key.created'), (3, 'user', 'delivery.released');`);
  old.close();
  const store = await openTestStore(t, { file });

  const pauses = await store.listDeliveryPauses();
  const audit = await store.listAudit({ since: null, action: null, before: null, limit: 10 });

  assert.deepEqual(
    pauses.map(({ host, pausedBy }) => [host, pausedBy]),
    [["a.example", "root"]],
  );
  const words = audit.map(({ action }) => action);
  assert.deepEqual(words, ["delivery.resumed", "key.created", "delivery.paused"]);
  await store.close();
  const connection = openWriter(file);
  t.after(() => connection.close());
  assert.throws(() => connection.exec("UPDATE audit SET action = 'x'"), /append-only/);
});

const ENTRY = "INSERT INTO audit (at, actor_kind, action) VALUES (1, 'user', 'key.created')";

test("a file of the ninth version keeps its tasks, which have no trace, and no pause", async (t) => {
  const connection = await openMigrated(t);

  const tasks = connection.prepare("SELECT id, trace_text FROM tasks").raw().all();
  assert.deepEqual(tasks, [["a", null]]);
  assert.deepEqual(connection.prepare("SELECT * FROM delivery_holds").all(), []);
});

test("an entry of the audit is never changed, and the oldest is erased first", async (t) => {
  const connection = await openMigrated(t);
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

test("the same lanes are paused once", async (t) => {
  const connection = await openMigrated(t);
  const pause = connection.prepare(
    "INSERT INTO delivery_holds (account_seq, host, since, held_by) VALUES (?, ?, 1, 'root')",
  );
  const scopes = [
    [null, null],
    [1, null],
    [null, "a"],
    [1, "a"],
  ];
  for (const scope of scopes) pause.run(...scope);
  for (const scope of scopes) assert.throws(() => pause.run(...scope), /UNIQUE/);
});
