import assert from "node:assert/strict";
import {
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { IDEMPOTENCY_MS } from "../../src/domain/clock/service-clock.ts";
import type { WorkProgress } from "../../src/domain/log.ts";
import type { TaskState } from "../../src/domain/task/task.ts";
import { ATTEMPT_OVERHEAD_BYTES, TASK_OVERHEAD_BYTES } from "../../src/store/common/byte-sizes.ts";
import { openWriter, type Connection } from "../../src/store/sqlite/machine/connection.ts";
import { InstanceLock } from "../../src/store/sqlite/machine/instance-lock.ts";
import {
  migrate,
  type Migration,
  type MigrationPlan,
} from "../../src/store/sqlite/machine/migrate.ts";
import { MIGRATIONS, SCHEMA_VERSION } from "../../src/store/sqlite/migration-steps.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { newOrder, placeOrder } from "../helpers/delivery.ts";
import {
  NEW_TASK_BYTES,
  newAccount,
  newDatabaseFile,
  newLeaseClaim,
  openTestStore,
  RETENTION_MS,
  seedWorker,
  T0,
  taskQuery,
} from "../helpers/store.ts";

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
    ...[
      "access_requests",
      "accounts",
      "attempts",
      "audit",
      "clock_readings",
      "deliveries",
      "delivery_holds",
      "erased_accounts",
    ],
    ...[
      "hold_changes",
      "host_counts",
      "host_failures",
      "host_traffic",
      "idempotency_keys",
      "keys",
      "leases",
    ],
    ...[
      "queue_marks",
      "redelivery_orders",
      "secrets",
      "sessions",
      "sign_in_links",
      "sqlite_sequence",
      "task_counts",
      "task_inputs",
      "task_results",
      "tasks",
      "traffic",
      "workers",
    ],
  ]);
});

test("has a step for every version up to the current one, in order", () => {
  const expected = Array.from({ length: SCHEMA_VERSION - 1 }, (_, i) => i + 2);

  assert.deepEqual(
    MIGRATIONS.map(({ to }) => to),
    expected,
  );
});

// Without comments and white space, which SQLite keeps as they were written.
function schemaOf(connection: Connection): unknown {
  const sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";
  const rows = connection.prepare<[], { sql: string | null }>(sql).all();
  return rows.map((row) => ({
    ...row,
    sql: row.sql
      ?.replace(/--.*$/gm, "")
      .replace(/\s+/g, " ")
      .replace(/ ?([(),]) ?/g, "$1"),
  }));
}

const FIRST_SCHEMA = readFileSync(new URL("../fixtures/schema-v1.sql", import.meta.url), "utf8");

/** A file as the first version made it, with tasks in every state, each in as many rows as its place in the list. */
function seedFirstVersion(t: TestContext): string {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  migrate(connection, { schemaSql: FIRST_SCHEMA, version: 1, migrations: [] });
  connection.exec(`
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1), ('bob', 's', 1);
    INSERT INTO keys (key_id, account_seq, hash, last_four, created_at, revoked_at)
    VALUES ('key_1', 1, 'hash 1', '1111', 1, NULL), ('key_2', 1, 'hash 2', '2222', 1, 2);`);
  const insert = connection.prepare(`
    INSERT INTO tasks (id, account_seq, state, status_code, type, tag, created_at, data_text)
    VALUES (?, 1, ?, 40602, 'echo', 'a', ?, '{"type":"echo"}')`);
  const states = ["delayed", "queued", "running", "completed", "failed", "cancelled"];
  for (const [place, state] of states.entries()) {
    for (let i = 0; i <= place; i++) insert.run(`${state} ${i}`, state, T0 + place);
  }
  connection.close();
  return file;
}

function openReader(t: TestContext, file: string): Connection {
  const connection = new Database(file, { readonly: true });
  t.after(() => connection.close());
  return connection;
}

/** A migrated file has the schema that a new one has, and what refers to something refers to what is there. */
async function assertLikeNew(t: TestContext, file: string): Promise<void> {
  const newFile = newDatabaseFile(t);
  await openTestStore(t, { file: newFile });
  const migrated = openReader(t, file);
  assert.equal(versionOf(migrated), SCHEMA_VERSION);
  assert.deepEqual(schemaOf(migrated), schemaOf(openReader(t, newFile)));
  assert.deepEqual(migrated.pragma("foreign_key_check"), []);
}

test("brings a file of the first version to the schema of a new one, with its data and its counts", async (t) => {
  const file = seedFirstVersion(t);

  const store = await openTestStore(t, { file });

  await assertLikeNew(t, file);
  const copy = openReader(t, `${file}.v1.bak`);
  assert.equal(versionOf(copy), 1);
  assert.equal(copy.prepare("SELECT count(*) FROM tasks").pluck().get(), 21);

  const taskCounts = { queued: 3, running: 3, completed: 4, failed: 5, cancelled: 6 };
  const data = await store.findAccountData({ accountId: 1, revokedMax: 9 });
  assert.deepEqual(data?.taskCounts, taskCounts);
  assert.deepEqual(
    data.keys.map(({ keyId }) => keyId),
    ["key_1", "key_2"],
  );
  for (const [state, count] of Object.entries(taskCounts)) {
    // The keys of the table are the states.
    const query = taskQuery(1, { states: [state as TaskState], tag: "a" });
    assert.equal((await store.listTasks(query)).tasks.length, count, state);
  }
  const none = (await store.findAccountData({ accountId: 2, revokedMax: 9 }))?.taskCounts;
  assert.deepEqual(new Set(Object.values(none ?? {})), new Set([0]));
  await store.requeueTasks({ of: "earlier life" });
  const moved = (await store.findAccountData({ accountId: 1, revokedMax: 9 }))?.taskCounts;
  assert.deepEqual(moved, { ...taskCounts, queued: 6, running: 0 });
});

const SECOND_SCHEMA = readFileSync(new URL("../fixtures/schema-v2.sql", import.meta.url), "utf8");

/** A file as the second version made it, with one delivery that was given up after two attempts. */
function seedSecondVersion(t: TestContext): string {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  migrate(connection, { schemaSql: SECOND_SCHEMA, version: 2, migrations: [] });
  connection.exec(`
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1);
    INSERT INTO tasks (id, account_seq, state, status_code, type, created_at, data_text)
    VALUES ('a task', 1, 'completed', 20000, 'echo', 1, '{"type":"echo"}');
    INSERT INTO deliveries (task_seq, kind, url, host, state)
    VALUES (1, 'postback', 'https://a.example/', 'a.example', 'given_up');`);
  const insert = connection.prepare(`
    INSERT INTO attempts
      (task_seq, kind, number, retry, host, due_at, started_at, ended_at, outcome, response_excerpt)
    VALUES (1, 'postback', ?, ?, 'a.example', 1, 2, 3, 'failed', 'kept')`);
  for (const number of [1, 2]) insert.run(number, number - 1);
  connection.close();
  return file;
}

test("brings a file of the second version to the schema of a new one, its attempts into the log", async (t) => {
  const file = seedSecondVersion(t);

  const store = await openTestStore(t, { file });

  await assertLikeNew(t, file);
  assert.equal(existsSync(`${file}.v2.bak`), true);
  const found = await store.findTaskDeliveries("a task");
  assert.deepEqual(
    found?.deliveries[0]?.attempts.map(({ number, responseExcerpt, retryAfter }) => [
      ...[number, responseExcerpt, retryAfter],
    ]),
    [
      [1, "kept", null],
      [2, "kept", null],
    ],
  );
  const order = newOrder({ createdAt: 3 });
  await placeOrder(store, order);
  const step = await store.stepRedeliveryOrder({ id: order.id, max: 9, now: T0 });
  assert.deepEqual(step, {
    lanes: [{ accountId: 1, host: "a.example" }],
    redelivered: 1,
    isDone: true,
  });
});

const THIRD_SCHEMA = readFileSync(new URL("../fixtures/schema-v3.sql", import.meta.url), "utf8");

/** A file as the third version made it, with tasks that wait, run and have ended. */
function seedThirdVersion(t: TestContext): string {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  migrate(connection, { schemaSql: THIRD_SCHEMA, version: 3, migrations: [] });
  connection.exec(`
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1), ('bob', 's', 1);
    INSERT INTO task_counts (account_seq, state, count)
    VALUES (1, 'queued', 3), (1, 'running', 1), (1, 'completed', 1), (2, 'queued', 1);`);
  const insert = connection.prepare(`
    INSERT INTO tasks (id, account_seq, state, status_code, type, priority, created_at, data_text, runs)
    VALUES (?, ?, ?, 40602, 'echo', ?, ?, '{"type":"echo"}', ?)`);
  insert.run("low", 1, "queued", 0, T0, 0);
  insert.run("high", 1, "queued", 9, T0 + 1, 0);
  insert.run("low too", 1, "queued", 0, T0 + 2, 0);
  insert.run("ran", 1, "running", 0, T0, 1);
  insert.run("ended", 1, "completed", 0, T0, 1);
  insert.run("another's", 2, "queued", 0, T0 - 1, 0);
  connection.close();
  return file;
}

test("brings a file of the third version to the schema of a new one, its queue to the accounts' turns", async (t) => {
  const file = seedThirdVersion(t);

  const store = await openTestStore(t, { file });

  await assertLikeNew(t, file);
  assert.equal(existsSync(`${file}.v3.bak`), true);
  assert.equal(await store.requeueTasks({ of: "earlier life" }), 1);
  assert.equal(await store.findOldestQueued(["echo"]), T0 - 1);
  const leased = await store.claimLeases(newLeaseClaim(await seedWorker(store)));
  assert.deepEqual(
    leased.map(({ id, runs }) => [id, runs]),
    [
      ["high", 1],
      ["another's", 1],
      ["low", 1],
      ["low too", 1],
      ["ran", 2],
    ],
  );
});

const FOURTH_SCHEMA = readFileSync(new URL("../fixtures/schema-v4.sql", import.meta.url), "utf8");

/** A file as the fourth version made it, with tasks that are ready and deliveries that are tried again. */
function seedFourthVersion(t: TestContext): string {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  migrate(connection, { schemaSql: FOURTH_SCHEMA, version: 4, migrations: [] });
  connection.exec(`
    INSERT INTO accounts (login, webhook_secret, created_at)
    VALUES ('ada', 's', 1), ('bob', 's', 1), ('eve', 's', 1);
    INSERT INTO task_counts (account_seq, state, count)
    VALUES (1, 'completed', 3), (1, 'failed', 2), (2, 'completed', 1), (2, 'queued', 3),
      (3, 'queued', 1);`);
  const insertTask = connection.prepare(`
    INSERT INTO tasks (id, account_seq, state, status_code, type, created_at, data_text, runs, ready)
    VALUES (?, ?, ?, 20000, 'echo', 1, '{"type":"echo"}', ?, ?)`);
  insertTask.run("ready", 1, "completed", 1, 1);
  insertTask.run("ready too", 1, "completed", 1, 1);
  insertTask.run("collected", 1, "completed", 1, 0);
  insertTask.run("ready and failed", 1, "failed", 1, 1);
  insertTask.run("refused", 1, "failed", 0, 0);
  insertTask.run("another's", 2, "completed", 1, 1);
  insertTask.run("waits", 2, "queued", 0, 0);
  insertTask.run("starts later", 2, "delayed", 0, 0);
  insertTask.run("starts later too", 2, "delayed", 0, 0);
  insertTask.run("only this", 3, "delayed", 0, 0);
  seedFourthDeliveries(connection);
  connection.close();
  return file;
}

function seedFourthDeliveries(connection: Connection): void {
  const insertDelivery = connection.prepare(`
    INSERT INTO deliveries (task_seq, kind, url, host, state) VALUES (?, ?, 'https://a/', 'a', ?)`);
  const insertAttempt = connection.prepare(`
    INSERT INTO attempts (task_seq, kind, number, retry, host, due_at, started_at, ended_at)
    VALUES (?, ?, ?, ?, 'a', 1, ?, ?)`);
  for (const [seq, kind, state] of [
    ...([
      [1, "postback", "open"],
      [1, "pingback", "open"],
      [2, "postback", "open"],
    ] as const),
    ...([
      [3, "postback", "delivered"],
      [4, "postback", "given_up"],
      [4, "pingback", "refused"],
      [6, "postback", "open"],
      [7, "postback", "waiting"],
    ] as const),
  ]) {
    insertDelivery.run(seq, kind, state);
  }
  // Failed, and scheduled; failed twice, and in flight; scheduled for the first time; delivered by a retry.
  for (const attempt of [
    ...[
      [1, "postback", 1, 0, 2, 3],
      [1, "postback", 2, 1, null, null],
    ],
    ...[
      [1, "pingback", 2, 1, 2, 3],
      [1, "pingback", 3, 2, 4, null],
    ],
    ...[[2, "postback", 1, 0, null, null]],
    ...[
      [3, "postback", 1, 0, 2, 3],
      [3, "postback", 2, 1, 4, 5],
    ],
    ...[[6, "postback", 2, 1, null, null]],
  ]) {
    insertAttempt.run(...attempt);
  }
}

test("brings a file of the fourth version to the schema of a new one, with all that is counted now", async (t) => {
  const file = seedFourthVersion(t);

  const store = await openTestStore(t, { file });

  await assertLikeNew(t, file);
  assert.equal(existsSync(`${file}.v4.bak`), true);
  const none = { queued: 0, delayed: 0, running: 0, completed: 0, failed: 0, cancelled: 0 };
  const ada = {
    ...none,
    completed: 3,
    failed: 2,
    ready: 3,
    retrying: 2,
    undelivered: 2,
    // With four attempts that have ended.
    bytes: 5 * NEW_TASK_BYTES + 4 * ATTEMPT_OVERHEAD_BYTES,
  };
  const bob = {
    ...none,
    queued: 1,
    delayed: 2,
    completed: 1,
    ready: 1,
    retrying: 1,
    undelivered: 0,
    bytes: 4 * NEW_TASK_BYTES,
  };
  assert.deepEqual(await store.countWork(1), ada);
  assert.deepEqual(await store.countWork(2), bob);
  const eve = { ...none, delayed: 1, ready: 0, retrying: 0, undelivered: 0, bytes: NEW_TASK_BYTES };
  assert.deepEqual(await store.countWork(3), eve);
  const data = await store.findAccountData({ accountId: 2, revokedMax: 0 });
  assert.equal(data?.taskCounts.queued, 3);
  const all = {
    ...none,
    queued: 1,
    delayed: 3,
    completed: 4,
    failed: 2,
    ready: 4,
    retrying: 3,
    undelivered: 2,
    bytes: 10 * NEW_TASK_BYTES + 4 * ATTEMPT_OVERHEAD_BYTES,
  };
  assert.deepEqual(await store.countWork(null), all);
});

const FIFTH_SCHEMA = readFileSync(new URL("../fixtures/schema-v5.sql", import.meta.url), "utf8");

test("brings a file of the fifth version to the schema of a new one, with what it keeps for as long as before", async (t) => {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  migrate(connection, { schemaSql: FIFTH_SCHEMA, version: 5, migrations: [] });
  connection.exec(`
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1);
    INSERT INTO tasks (id, account_seq, state, status_code, created_at, completed_at, expires_at, data_text)
    VALUES
      ('ended', 1, 'completed', 20000, ${T0}, ${T0}, ${T0 + RETENTION_MS}, '{}'),
      ('waits', 1, 'queued', 40602, ${T0}, NULL, NULL, '{}');
    INSERT INTO task_counts (account_seq, state, count) VALUES (1, 'completed', 1), (1, 'queued', 1);
    INSERT INTO idempotency_keys (account_seq, key, body_hash, answer_text, created_at)
    VALUES (1, 'k', 'hash', '{}', ${T0});`);
  connection.close();

  const store = await openTestStore(t, { file });

  await assertLikeNew(t, file);
  const find = (steadyAt: number) => store.findKeptAnswer({ accountId: 1, key: "k", steadyAt });
  assert.notEqual(await find(T0 + IDEMPOTENCY_MS), null);
  assert.equal(await find(T0 + IDEMPOTENCY_MS + 1), null);
  assert.equal(await store.findClockReading(), null);
  assert.equal((await store.eraseExpired({ now: T0 + RETENTION_MS - 1, max: 9 })).looked, 0);
  assert.equal((await store.eraseExpired({ now: T0 + RETENTION_MS, max: 9 })).looked, 1);
  assert.equal(await store.findTask({ accountId: 1, id: "ended" }), null);
});

const SIXTH_SCHEMA = readFileSync(new URL("../fixtures/schema-v6.sql", import.meta.url), "utf8");

test("brings a file of the sixth version to the schema of a new one, and counts what each account has in it", async (t) => {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  migrate(connection, { schemaSql: SIXTH_SCHEMA, version: 6, migrations: [] });
  connection.exec(`
    INSERT INTO accounts (login, webhook_secret, created_at)
    VALUES ('ada', 's', 1), ('bob', 's', 1), ('eve', 's', 1);
    INSERT INTO tasks (id, account_seq, state, status_code, created_at, data_text)
    VALUES
      ('a', 1, 'completed', 20000, ${T0}, '{"tag":"ä"}'), ('b', 1, 'queued', 40602, ${T0}, '{}'),
      ('c', 2, 'failed', 40501, ${T0}, '{}');
    INSERT INTO task_inputs VALUES (1, '12345');
    INSERT INTO task_results VALUES (1, '"ö"', NULL), (3, NULL, '1234');`);
  connection.close();

  const store = await openTestStore(t, { file });

  await assertLikeNew(t, file);
  const bytesOf = async (accountId: number) => (await store.countWork(accountId)).bytes;
  assert.equal(await bytesOf(1), 2 * TASK_OVERHEAD_BYTES + 12 + 5 + 4 + 2);
  assert.equal(await bytesOf(2), TASK_OVERHEAD_BYTES + 2 + 4);
  assert.equal(await bytesOf(3), 0);
});

const SEVENTH_SCHEMA = readFileSync(new URL("../fixtures/schema-v7.sql", import.meta.url), "utf8");

test("brings a file of the seventh version to the schema of a new one, and counts how deliveries to each host stand", async (t) => {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  migrate(connection, { schemaSql: SEVENTH_SCHEMA, version: 7, migrations: [] });
  connection.exec(`
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1), ('bob', 's', 1);
    INSERT INTO tasks (id, account_seq, state, status_code, created_at, completed_at, data_text)
    SELECT value, 1 + (value = 'e'), 'completed', 20000, ${T0}, ${T0}, '{}'
    FROM json_each('["a", "b", "c", "d", "e"]');
    INSERT INTO deliveries (task_seq, kind, url, host, state)
    VALUES
      (1, 'postback', 'https://a/', 'a', 'given_up'), (1, 'pingback', 'https://a/', 'a', 'refused'),
      (2, 'postback', 'https://a/', 'a', 'given_up'), (3, 'postback', 'https://a/', 'a', 'open'),
      (3, 'pingback', 'https://b/', 'b', 'open'), (4, 'postback', 'https://c/', 'c', 'delivered'),
      (4, 'pingback', 'https://c/', 'c', 'open'), (5, 'postback', 'https://a/', 'a', 'refused');
    INSERT INTO attempts (account_seq, task_seq, kind, number, retry, host, due_at, started_at, ended_at)
    VALUES
      (1, 3, 'postback', 1, 0, 'a', 1, 1, 1), (1, 3, 'postback', 2, 1, 'a', 9, NULL, NULL),
      (1, 3, 'pingback', 1, 0, 'b', 1, 1, 1), (1, 3, 'pingback', 2, 1, 'b', 1, 1, NULL),
      (1, 4, 'pingback', 1, 0, 'c', 9, NULL, NULL);`);
  connection.close();

  const store = await openTestStore(t, { file });

  await assertLikeNew(t, file);
  const counted = openReader(t, file).prepare("SELECT * FROM host_counts").raw().all();
  assert.deepEqual(counted, [
    [1, "a", 2, 1, 1],
    [1, "b", 0, 0, 1],
    [2, "a", 0, 1, 0],
  ]);
  const { hosts } = await store.listHostTraffic({ scope: null, since: T0, limit: 9 });
  assert.deepEqual(
    hosts.map(({ host, givenUp, refused, retrying }) => [host, givenUp, refused, retrying]),
    [["a", 2, 2, 1]],
  );
});

test("what a file of the sixth version has scheduled stands in the lanes of its accounts", async (t) => {
  const file = newDatabaseFile(t);
  const connection = openWriter(file);
  t.after(() => connection.close());
  migrate(connection, { schemaSql: SIXTH_SCHEMA, version: 6, migrations: [] });
  connection.exec(`
    INSERT INTO accounts (login, webhook_secret, created_at) VALUES ('ada', 's', 1), ('bob', 's', 1);
    INSERT INTO tasks (id, account_seq, state, status_code, created_at, completed_at, data_text)
    VALUES ('a', 1, 'completed', 20000, ${T0}, ${T0}, '{}'), ('b', 2, 'completed', 20000, ${T0}, ${T0}, '{}');
    INSERT INTO deliveries (task_seq, kind, url, host, state)
    SELECT seq, 'postback', 'https://a.example/', 'a.example', 'open' FROM tasks;
    INSERT INTO attempts (task_seq, kind, number, retry, host, due_at, started_at, ended_at, outcome)
    VALUES
      (1, 'postback', 1, 0, 'a.example', ${T0}, ${T0}, ${T0}, 'failed'),
      (1, 'postback', 2, 1, 'a.example', ${T0 + 60_000}, NULL, NULL, NULL),
      (2, 'postback', 1, 0, 'a.example', ${T0}, NULL, NULL, NULL);`);
  connection.close();

  const store = await openTestStore(t, { file });

  await assertLikeNew(t, file);
  assert.deepEqual(await store.listLanes({ accountId: "all" }), [
    { accountId: 1, host: "a.example", freshDueAt: null, retryDueAt: T0 + 60_000 },
    { accountId: 2, host: "a.example", freshDueAt: T0, retryDueAt: null },
  ]);
});

test("a store with a writer thread tells before it migrates a file, and only then", async (t) => {
  const file = seedFirstVersion(t);
  const told: unknown[] = [];
  const steps: WorkProgress[] = [];
  const open = () =>
    openSqliteStore({
      ...{ file, writer: "thread", backlogMax: 1 },
      migrating: {
        begins: ({ from, to }) => told.push({ from, to }),
        tell: (progress) => steps.push(progress),
      },
    });

  await (await open()).close();
  assert.deepEqual(told, [{ from: 1, to: SCHEMA_VERSION }]);
  const of = SCHEMA_VERSION - 1;
  assert.deepEqual(
    steps,
    Array.from({ length: of }, (_, i) => ({ part: "migration steps", done: i + 1, of })),
  );

  await (await open()).close();
  assert.deepEqual([told.length, steps.length], [1, of]);
});

// It would go on writing as its own version does: without counts, for one.
test("a command migrates no file that a daemon serves", async (t) => {
  const file = seedFirstVersion(t);
  const lock = InstanceLock.acquire(file);
  t.after(() => lock.release());

  await assert.rejects(openSqliteStore({ file, writer: "inline", backlogMax: 1 }), {
    name: "InstanceLockError",
    message: /already served by process \d+/,
  });

  const connection = new Database(file);
  t.after(() => connection.close());
  assert.equal(versionOf(connection), 1);
  assert.equal(existsSync(`${file}.v1.bak`), false);
  lock.release();
  await openTestStore(t, { file });
  assert.equal(versionOf(connection), SCHEMA_VERSION);
});

test("a copy that fails leaves nothing behind, and the file as it was", (t) => {
  const file = newDatabaseFile(t);
  const connection = openVersion1(t, file);
  const insert = connection.prepare("INSERT INTO notes (a) VALUES (?)");
  for (let i = 0; i < 50; i++) insert.run("x".repeat(3000));
  connection.pragma("wal_checkpoint(TRUNCATE)");
  connection.close();
  const descriptor = openSync(file, "r+");
  writeSync(descriptor, Buffer.alloc(4096, 0xff), 0, 4096, 30 * 4096);
  closeSync(descriptor);
  const damaged = openWriter(file);
  t.after(() => damaged.close());

  assert.throws(() => migrate(damaged, planTo(3)), /cannot be copied to .*\.v1\.bak .*make room/);

  assert.equal(versionOf(damaged), 1);
  const copies = readdirSync(dirname(file)).filter((name) => name.includes(".bak"));
  assert.deepEqual(copies, []);
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

test("takes the copy that an earlier try made for the copy, and says so", (t) => {
  const connection = openVersion1(t);
  const copy = `${connection.name}.v1.bak`;
  connection.prepare("VACUUM INTO ?").run(copy);
  const before = statSync(copy);
  const told: unknown[] = [];

  migrate(connection, planTo(3), { begins: (start) => told.push(start), tell() {} });

  assert.deepEqual(told, [{ from: 1, to: 3, copy }]);
  assert.deepEqual([statSync(copy).ino, statSync(copy).mtimeMs], [before.ino, before.mtimeMs]);
  assert.deepEqual(copiesOf(connection), [copy]);
});

function copiesOf({ name }: Connection): readonly string[] {
  const names = readdirSync(dirname(name)).filter((each) => each.includes(".bak"));
  return names.map((each) => join(dirname(name), each)).sort();
}

/** What lies at the copy's name, made from a whole copy. */
const others: readonly (readonly [what: string, spoil: (copy: string) => void])[] = [
  ["a text", (copy) => writeFileSync(copy, "the first copy")],
  ["an empty file", (copy) => writeFileSync(copy, "")],
  ["a copy of another version", (copy) => change(copy, "PRAGMA user_version = 2")],
  ["another program's database", (copy) => change(copy, "PRAGMA application_id = 7")],
  ["a copy without a row", (copy) => change(copy, "DELETE FROM notes")],
  ["a copy with another row", (copy) => change(copy, "UPDATE notes SET a = 'two'")],
  ["a copy with a row more", (copy) => change(copy, "INSERT INTO notes VALUES ('two')")],
  ["a copy with a table less", (copy) => change(copy, "DROP TABLE notes")],
  ["half a copy", (copy) => truncateSync(copy, 4096)],
  ["a damaged copy", (copy) => writeFileSync(copy, readFileSync(copy).fill(0, 8192))],
];

function change(file: string, sql: string): void {
  const connection = new Database(file);
  connection.exec(sql);
  connection.close();
}

for (const [what, spoil] of others) {
  test(`copies the file under another name where ${what} has the first, and says which`, (t) => {
    const connection = openVersion1(t);
    const first = `${connection.name}.v1.bak`;
    const second = `${connection.name}.v1.2.bak`;
    connection.prepare("VACUUM INTO ?").run(first);
    spoil(first);
    const before = readFileSync(first);
    const told: unknown[] = [];

    migrate(connection, planTo(3), { begins: (start) => told.push(start), tell() {} });

    assert.deepEqual(told, [{ from: 1, to: 3, copy: second }]);
    assert.deepEqual(readFileSync(first), before);
    const copy = openReader(t, second);
    assert.equal(versionOf(copy), 1);
    assert.deepEqual(notes(copy), [{ a: "one" }]);
    assert.equal(versionOf(connection), 3);
  });
}

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
