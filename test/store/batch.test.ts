import assert from "node:assert/strict";
import { readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import type { Operation } from "../../src/store/common/batch.ts";
import type { BatchRunner } from "../../src/store/sqlite/machine/batch.ts";
import { openWriter, type Connection } from "../../src/store/sqlite/machine/connection.ts";
import { OpenFiles } from "../../src/store/sqlite/machine/open-files.ts";
import { makeSchema } from "../../src/store/sqlite/machine/schema.ts";
import { toPostRow } from "../../src/store/sqlite/posts.ts";
import { newBatchRunner } from "../../src/store/sqlite/writes.ts";
import { limitFileSize } from "../helpers/file-size-limit.ts";
import { NEW_TASK_BYTES, newAccount, newDatabaseFile, newPost, newTask } from "../helpers/store.ts";

interface Runner {
  readonly runner: BatchRunner;
  readonly connection: Connection;
  readonly file: string;
}

function openRunner(t: TestContext, file = newDatabaseFile(t)): Runner {
  const connection = openWriter(file);
  t.after(() => connection.close());
  makeSchema(connection);
  return { runner: newBatchRunner(connection), connection, file };
}

/** A second connection, as another process has one. */
function openOther(t: TestContext, file: string): Connection {
  const other = new Database(file, { timeout: 0 });
  t.after(() => other.close());
  return other;
}

function makeAccount(login: string): Operation {
  return { name: "createAccount", args: newAccount({ login }) };
}

function postTasks(...inputs: readonly string[]): Operation {
  const tasks = inputs.map((inputText) => newTask({ inputText }));
  return { name: "insertTasks", args: toPostRow(newPost(1, tasks)) };
}

function count(connection: Connection, table: string): unknown {
  return connection.prepare(`SELECT count(*) FROM ${table}`).pluck().get();
}

function logins(connection: Connection): unknown {
  return connection.prepare("SELECT login FROM accounts ORDER BY login").pluck().all();
}

/** The next statement with this source fails once, as SQLite fails it when its I/O does. */
function failOnce(
  t: TestContext,
  connection: Connection,
  { source, code }: { readonly source: RegExp; readonly code: string },
): void {
  // All statements of a connection have one prototype.
  const statements = Object.getPrototypeOf(connection.prepare("COMMIT")) as Database.Statement;
  const { run } = statements;
  const mock = t.mock.method(
    statements,
    "run",
    function (this: Database.Statement, ...args: unknown[]) {
      if (!source.test(this.source)) return run.apply(this, args);
      mock.mock.restore();
      throw new Database.SqliteError("disk I/O error", code);
    },
  );
}

test("an I/O error ends all writing, without a retry of the batch", (t) => {
  const { runner, connection, file } = openRunner(t);
  runner.run([makeAccount("ada")]);
  failOnce(t, connection, { source: /INSERT INTO tasks/, code: "SQLITE_IOERR_READ" });
  assert.equal(runner.run([makeAccount("bob"), postTasks("1")]).kind, "failed");
  assert.equal(runner.run([makeAccount("carol")]).kind, "failed");
  assert.deepEqual(logins(openOther(t, file)), ["ada"]);
});

for (const code of ["SQLITE_IOERR_FSYNC", "SQLITE_IOERR_SHMMAP", "SQLITE_NOMEM", "SQLITE_ERROR"]) {
  test(`the outcome of a batch is unknown if its COMMIT ended with ${code}`, (t) => {
    const { runner, connection } = openRunner(t);
    runner.run([makeAccount("ada")]);
    failOnce(t, connection, { source: /^COMMIT/, code });
    assert.equal(runner.run([makeAccount("bob")]).kind, "unknown");
    // Later batches are certain not to be written.
    assert.equal(runner.run([makeAccount("carol")]).kind, "failed");
  });
}

for (const code of ["SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_BUSY"]) {
  test(`a batch whose COMMIT ended with ${code} is undone, and later batches are written`, (t) => {
    const { runner, connection, file } = openRunner(t);
    runner.run([makeAccount("ada")]);
    failOnce(t, connection, { source: /^COMMIT/, code });
    const { kind } = runner.run([makeAccount("bob"), postTasks("1")]);
    assert.equal(kind, code === "SQLITE_BUSY" ? "busy" : "full");
    assert.equal(runner.run([makeAccount("carol")]).kind, "committed");
    assert.deepEqual(logins(openOther(t, file)), ["ada", "carol"]);
  });
}

test("a batch without a change reports that it has not written", (t) => {
  const { runner } = openRunner(t);
  runner.run([makeAccount("ada")]);
  const written = (name: "releaseDelayed" | "tryWrite", args: unknown): unknown => {
    const reply = runner.run([{ name, args }]);
    return reply.kind === "committed" && reply.hasWritten;
  };
  assert.equal(written("releaseDelayed", { now: 0, max: 10 }), false);
  assert.equal(written("tryWrite", undefined), true);
  assert.equal(written("releaseDelayed", { now: 0, max: 10 }), false);
});

// A real limit of this process: a quota and a read-only file system fail write() in the same way.
test("a file-size limit refuses batches and checkpoints without a loss, until it is raised", (t) => {
  const { runner, connection, file } = openRunner(t);
  runner.run([makeAccount("ada")]);
  const noLimit = limitFileSize(t, statSync(`${file}-wal`).size);
  if (noLimit !== null) return t.skip(noLimit);

  for (let i = 0; i < 3; i++) {
    const reply = runner.run([makeAccount("bob"), postTasks("1")]);
    assert.equal(reply.kind, "full");
    assert.match(reply.message, /SQLITE_IOERR_WRITE.*quota.*file-size limit.*read-only/);
  }
  assert.deepEqual(logins(openOther(t, file)), ["ada"]);
  limitFileSize(t, "unlimited");
  const large = postTasks(JSON.stringify("x".repeat(6_000_000)));
  assert.equal(runner.run([makeAccount("carol"), large]).kind, "committed");

  // Now the checkpoint's turn: the file has had its first pages only, and the WAL is large enough.
  limitFileSize(t, statSync(file).size);
  runner.run([postTasks(JSON.stringify("x".repeat(6_000_000)))]);
  limitFileSize(t, "unlimited");
  for (let i = 0; i < 3; i++) assert.equal(runner.run([postTasks("2")]).kind, "committed");
  assert.deepEqual(logins(openOther(t, file)), ["ada", "carol"]);
  assert.equal(connection.pragma("quick_check", { simple: true }), "ok");
});

// The counts of a failed batch must not appear in the next batch.
test("the tasks of a batch are counted once after retries and undone operations", (t) => {
  const { runner, connection, file } = openRunner(t);
  runner.run([makeAccount("ada")]);
  const pages = Number(connection.pragma("page_count", { simple: true }));
  const [big, twin] = [JSON.stringify("x".repeat(100_000)), newTask()];
  const half: Operation = {
    name: "insertTasks",
    args: toPostRow(newPost(1, [newTask(), twin, twin])),
  };
  const claim: Operation = { name: "claimTasks", args: { type: "echo", max: 1, now: 0 } };
  const batch = [postTasks("1", "2"), half, claim, postTasks(big)];
  connection.pragma(`max_page_count = ${pages + 2}`);

  for (let i = 0; i < 2; i++) assert.equal(runner.run(batch).kind, "full");
  connection.pragma("max_page_count = 4294967294");
  assert.equal(runner.run([half]).kind, "committed");
  assert.equal(count(openOther(t, file), "task_counts"), 0);
  assert.equal(runner.run(batch).kind, "committed");

  const sql = "SELECT state, count FROM task_counts WHERE count <> 0 ORDER BY state";
  const texts = JSON.stringify("x".repeat(100_000)).length + 2;
  assert.deepEqual(openOther(t, file).prepare(sql).all(), [
    { state: "bytes", count: 3 * NEW_TASK_BYTES + texts },
    { state: "queued", count: 2 },
    { state: "running", count: 1 },
  ]);
});

test("a batch is busy while another process locks the file, and the next one is written", (t) => {
  const { runner, connection, file } = openRunner(t);
  const other = openOther(t, file);
  // The lock of this test is not released in time.
  connection.pragma("busy_timeout = 20");
  other.exec("BEGIN IMMEDIATE");
  assert.equal(runner.run([makeAccount("ada")]).kind, "busy");
  assert.equal(connection.inTransaction, false);
  other.exec("ROLLBACK");
  assert.equal(runner.run([makeAccount("ada")]).kind, "committed");
  assert.deepEqual(logins(other), ["ada"]);
});

test("a failed checkpoint keeps its batch and ends all writing", (t) => {
  const { runner, connection } = openRunner(t);
  const pragma = connection.pragma.bind(connection);
  connection.pragma = (source, options) => {
    if (!source.startsWith("wal_checkpoint")) return pragma(source, options);
    throw new Database.SqliteError("disk I/O error", "SQLITE_IOERR_FSYNC");
  };
  runner.run([makeAccount("ada")]);

  const large = runner.run([postTasks(JSON.stringify("x".repeat(6_000_000)))]);
  const later = runner.run([makeAccount("bob")]);

  assert.equal(large.kind, "committed");
  assert.equal(count(connection, "tasks"), 1);
  assert.equal(later.kind, "failed");
  assert.deepEqual(logins(connection), ["ada"]);
});

test("a reader that does not end delays few batches", (t) => {
  const { connection, file } = openRunner(t);
  const runner = newBatchRunner(connection, { walPagesMax: 150, readersWaitMs: 200 });
  runner.run([makeAccount("ada")]);
  const other = openOther(t, file);
  other.exec("BEGIN");
  count(other, "tasks");
  const pragma = t.mock.method(connection, "pragma");
  const tries = (): number =>
    pragma.mock.calls.filter(({ arguments: [source] }) => source === "wal_checkpoint(RESTART)")
      .length;

  const waits = Array.from({ length: 9 }, () => {
    const triesBefore = tries();
    const startedAt = performance.now();
    const { kind } = runner.run([postTasks(JSON.stringify("x".repeat(400_000)))]);
    assert.equal(kind, "committed");
    return { ms: performance.now() - startedAt, hasWaited: tries() > triesBefore };
  }).filter(({ hasWaited }) => hasWaited);

  // At 200, 400 and 800 pages: up to 1,000 pages the age of the reader is unknown.
  assert.equal(waits.length, 3);
  for (const { ms } of waits) assert(ms >= 200, `${ms} ms`);
  assert.equal(connection.pragma("busy_timeout", { simple: true }), 5000);
  assert.equal(count(other, "tasks"), 0);
  other.exec("COMMIT");
  assert.equal(count(other, "tasks"), 9);
});

test("a reader older than the wait of the writer delays no batch", (t) => {
  const { connection, file } = openRunner(t);
  const runner = newBatchRunner(connection, { walPagesMax: 2000, readersWaitMs: 200 });
  runner.run([makeAccount("ada")]);
  const other = openOther(t, file);
  other.exec("BEGIN");
  count(other, "tasks");
  const pragma = t.mock.method(connection, "pragma");
  let now = 0;
  t.mock.method(performance, "now", () => (now += 50));

  for (let i = 0; i < 30; i++) {
    now += 1000;
    const { kind } = runner.run([postTasks(JSON.stringify("x".repeat(400_000)))]);
    assert.equal(kind, "committed");
  }

  const tries = pragma.mock.calls.map(({ arguments: [source] }) => source);
  assert(tries.includes("wal_checkpoint(PASSIVE)"));
  assert(!tries.includes("wal_checkpoint(RESTART)"));
  other.exec("COMMIT");
  assert.equal(count(other, "tasks"), 30);
});

test("a WAL that grew during a long read shrinks by at most 8 MiB a batch", (t) => {
  const { connection, file } = openRunner(t);
  const runner = newBatchRunner(connection, { walPagesMax: 150, readersWaitMs: 20 });
  const run = (): number => {
    assert.equal(runner.run([postTasks(JSON.stringify("x".repeat(1_000_000)))]).kind, "committed");
    return statSync(`${file}-wal`).size;
  };
  runner.run([makeAccount("ada")]);
  const other = openOther(t, file);
  other.exec("BEGIN");
  count(other, "tasks");
  const sizes = Array.from({ length: 25 }, run);
  other.exec("COMMIT");

  for (let i = 0; i < 25; i++) sizes.push(run());

  assert.ok((sizes.at(-1) ?? 0) < 5_000_000, sizes.join(", "));
  assert.ok(Math.max(...sizes) > 25_000_000);
  const cuts = sizes.map((size, i) => (sizes[i - 1] ?? 0) - size);
  assert.ok(Math.max(...cuts) <= 8.5 * 1024 ** 2, sizes.join(", "));
});

test("a replaced database file gets no pages, and its batches are not acknowledged", (t) => {
  const file = newDatabaseFile(t);
  const { connection } = openRunner(t, file);
  const files = new OpenFiles(file);
  const runner = newBatchRunner(connection, { fileTrouble: () => files.trouble() });
  assert.equal(runner.run([makeAccount("ada")]).kind, "committed");
  renameSync(file, `${file}.old`);
  writeFileSync(file, "another");
  const before = readFileSync(`${file}.old`);

  const large = runner.run([postTasks(JSON.stringify("x".repeat(6_000_000)))]);

  // It is there again if the file is put back.
  assert(large.kind === "unknown");
  assert.match(large.trouble?.reason ?? "", /^the database file was replaced/);
  assert.deepEqual(runner.run([makeAccount("bob")]), { ...large, kind: "failed" });
  assert.deepEqual(readFileSync(`${file}.old`), before);
  assert.equal(readFileSync(file, "utf8"), "another");
});

test("the WAL is copied into the file at its limit and restarts", (t) => {
  const { runner, file } = openRunner(t);
  runner.run([makeAccount("ada")]);
  for (let i = 0; i < 20; i++) runner.run([postTasks(JSON.stringify("x".repeat(1_000_000)))]);
  assert.ok(readFileSync(file).length > 15_000_000);
  assert.ok(readFileSync(`${file}-wal`).length < 10_000_000);
});
