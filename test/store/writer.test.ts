import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Worker } from "node:worker_threads";

import Database from "better-sqlite3";

import type { BatchReply, Operation } from "../../src/store/common/batch.ts";
import { GroupCommit } from "../../src/store/common/group-commit.ts";
import type { BatchRunner } from "../../src/store/sqlite/machine/batch.ts";
import {
  type Connection,
  openReader,
  openWriter,
} from "../../src/store/sqlite/machine/connection.ts";
import { OpenFiles } from "../../src/store/sqlite/machine/open-files.ts";
import { makeSchema } from "../../src/store/sqlite/machine/schema.ts";
import { toPostRow } from "../../src/store/sqlite/posts.ts";
import type { WriterOrder } from "../../src/store/sqlite/writer-thread.ts";
import { WriterThread } from "../../src/store/sqlite/writer.ts";
import { type Writes, newBatchRunner } from "../../src/store/sqlite/writes.ts";
import { StoreError } from "../../src/store/store.ts";
import { limitFileSize } from "../helpers/file-size-limit.ts";
import {
  NEW_TASK_BYTES,
  newAccount,
  newDatabaseFile,
  newPost,
  newTask,
  openTestStore,
  pluck,
} from "../helpers/store.ts";

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

/** A writer thread whose messages the test sends. */
class FakeThread extends EventEmitter {
  readonly orders: WriterOrder[] = [];

  postMessage(order: WriterOrder): void {
    this.orders.push(order);
    if (order.kind === "close") this.emit("exit");
  }

  /** The ids of the received batches. */
  get ids(): readonly number[] {
    return this.orders.flatMap((order) => (order.kind === "batch" ? [order.id] : []));
  }

  reply(id: number | undefined, reply: BatchReply): void {
    this.emit("message", { kind: "reply", id, reply });
  }
}

const BATCH = [{ name: "tryWrite", args: undefined }] as const;

function committed(value: unknown): BatchReply {
  return { kind: "committed", values: [value], rejected: [], changed: [], hasWritten: true };
}

function setUp() {
  const thread = new FakeThread();
  return { thread, writer: new WriterThread(thread) };
}

test("replies in any order settle their own batches", async () => {
  const { thread, writer } = setUp();
  const first = writer.send(BATCH);
  const second = writer.send(BATCH);
  const [firstId, secondId] = thread.ids;
  thread.reply(secondId, committed("second"));
  thread.reply(firstId, committed("first"));
  assert.deepEqual(await first, committed("first"));
  assert.deepEqual(await second, committed("second"));
});

const breaks = {
  "a reply that belongs to no batch": (thread: FakeThread) => thread.reply(99, committed(1)),
  "a second reply to one batch": (thread: FakeThread) => {
    for (let i = 0; i < 2; i++) thread.reply(thread.ids[0], committed(1));
  },
  "a reply that cannot be read": (thread: FakeThread) =>
    thread.emit("messageerror", new Error("could not be deserialized")),
  "a thread that throws": (thread: FakeThread) => thread.emit("error", new Error("bug")),
  "a thread that ends": (thread: FakeThread) => thread.emit("exit"),
};
for (const [what, breakIt] of Object.entries(breaks)) {
  test(`after ${what} batches in flight are unknown, and later ones fail`, async () => {
    const { thread, writer } = setUp();
    const answered = writer.send(BATCH);
    const inFlight = [writer.send(BATCH), writer.send(BATCH)];
    thread.reply(thread.ids[0], committed(0));
    await answered;
    breakIt(thread);
    for (const { kind } of await Promise.all(inFlight)) assert.equal(kind, "unknown");
    assert.equal((await writer.send(BATCH)).kind, "failed");
    assert.equal(thread.ids.length, 3);
    await writer.close();
  });
}

for (const what of ["a reply that cannot be read", "a thread that ends"] as const) {
  test(`a start fails after ${what}`, async () => {
    const { thread, writer } = setUp();
    breaks[what](thread);
    await assert.rejects(Promise.race([writer.ready, setImmediate()]));
  });
}

test("a batch that cannot be sent to the thread has failed", async () => {
  const { thread, writer } = setUp();
  thread.postMessage = () => {
    throw new Error("could not be cloned");
  };
  assert.equal((await writer.send(BATCH)).kind, "failed");
});

/** A writer thread that ends after the commit of its first batch, before its reply. */
async function startDyingThread(t: TestContext, file: string): Promise<WriterThread> {
  const entry = new URL("./dying-writer-thread.ts", import.meta.url);
  const worker = new Worker(entry, { workerData: { role: "writer", file } });
  t.after(() => worker.terminate());
  const writer = new WriterThread(worker);
  await writer.ready;
  return writer;
}

test("a thread that dies between commit and reply leaves the outcome unknown", async (t) => {
  const file = newDatabaseFile(t);
  const thread = await startDyingThread(t, file);
  const group = new GroupCommit<Writes>(thread, { batchWeightMax: 1, backlogWeightMax: 100 });
  const create = (login: string): Promise<string> =>
    group
      .submit("createAccount", newAccount({ login }), { weight: 1, mayShed: false })
      .catch((error: unknown) => (error instanceof StoreError ? error.kind : String(error)));

  const outcomes = await Promise.all(["ada", "bob", "carol", "dave"].map(create));

  const reader = openReader(file);
  t.after(() => reader.close());
  assert.deepEqual(reader.prepare("SELECT login FROM accounts").pluck().all(), ["ada"]);
  // Operations that had not reached the thread have certainly failed.
  assert.deepEqual(outcomes, ["unknown", "failed", "failed", "failed"]);
  assert.equal(group.fault?.kind, "failed");
  await group.close();
});

test("a thread after an unreadable message closes the file", async (t) => {
  const file = newDatabaseFile(t);
  const worker = new Worker(new URL("../../src/store/sqlite/writer-thread.ts", import.meta.url), {
    workerData: { role: "writer", file },
  });
  t.after(() => worker.terminate());
  const writer = new WriterThread(worker);
  await writer.ready;
  worker.emit("messageerror", new Error("could not be deserialized"));
  const ended = once(worker, "exit");
  await writer.close();
  await ended;
});

/** Faults of the kernel for a process that serves a store, by strace; skipped if strace may not attach. */

interface Fault {
  /** The failing calls, in strace's format. */
  readonly calls: string;
  /** On which of the store's files: its name's end. */
  readonly path?: "-wal" | "-shm";
  /** The fault and its time, in the format of strace's `inject`. */
  readonly inject: string;
}

// After a failed fsync the kernel may drop what it could not write and report the next fsync as done.
test("no write is acknowledged after a failed fsync", async (t) => {
  const store = await startTracedStore(t);
  await store.say("before");
  const tracer = await store.trace({ calls: "fsync,fdatasync", inject: "error=EIO:when=1" });
  if (tracer.failure !== null) return t.skip(tracer.failure);
  // The page cache has the first write, the disk may not have it.
  assert.equal(await store.say("first"), "StoreError unknown");
  assert.equal(await store.say("second"), "StoreError failed");
  assert.equal(await store.say("third"), "StoreError failed");
  const { logins } = await store.foundAfterKill();
  assert.equal(logins[0], "before");
  assert.equal(logins.includes("second") || logins.includes("third"), false);
});

for (const error of ["ENOSPC", "EIO"]) {
  test(`${error} while the WAL is written undoes the batch, and the store goes on without a restart`, async (t) => {
    const store = await startTracedStore(t);
    await store.say("before");
    const tracer = await store.trace({ calls: WRITES, path: "-wal", inject: `error=${error}` });
    if (tracer.failure !== null) return t.skip(tracer.failure);
    assert.equal(await store.say("first"), "StoreError full");
    assert.equal(await store.say("second"), "StoreError full");
    await tracer.end();
    assert.equal(await store.say("third"), "created");
    assert.deepEqual((await store.foundAfterKill()).logins, ["before", "third"]);
  });
}

// COMMIT asks for room in the WAL's index when the batch is on disk, and valid, already.
test("a batch refused for a full WAL index is gone after a kill", async (t) => {
  const store = await startTracedStore(t);
  await store.say("before");
  const tracer = await store.trace({ calls: WRITES, path: "-shm", inject: "error=ENOSPC" });
  if (tracer.failure !== null) return t.skip(tracer.failure);
  // More pages than the index has room for as it was made.
  assert.equal(await store.say("post 20000000"), "StoreError full");
  assert.deepEqual(await store.foundAfterKill(), { logins: ["before"], tasks: 0 });
});

const WRITES = "write,pwrite64";

async function startTracedStore(t: TestContext) {
  const file = newDatabaseFile(t);
  const program = new URL("./store-process.ts", import.meta.url).pathname;
  const child = spawn(process.execPath, [program, file], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<unknown> => (await lines.next()).value;
  assert.equal(await next(), "ready");
  return {
    say(line: string): Promise<unknown> {
      child.stdin.write(`${line}\n`);
      return next();
    },
    trace: (fault: Fault) => trace(t, { child, file, fault }),
    /** The content of the file for another process. */
    async foundAfterKill() {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
      const store = await openTestStore(t, { file });
      const logins = pluck(await store.listAccounts(), "login");
      const { queued } = await store.countWork(null);
      return { logins, tasks: queued };
    },
  };
}

interface Traced {
  readonly child: ChildProcess;
  readonly file: string;
  readonly fault: Fault;
}

/** Makes calls of a process fail until it is ended; `failure` is why that cannot be done, or null. */
async function trace(t: TestContext, { child, file, fault }: Traced) {
  const end = (): Promise<void> => Promise.resolve();
  if (spawnSync("strace", ["-V"], { stdio: "ignore" }).status !== 0) {
    return { failure: "strace is not installed", end };
  }
  const { calls, path, inject } = fault;
  const paths = path === undefined ? [] : ["-P", `${file}${path}`];
  const faults = ["-e", `trace=${calls}`, "-e", `inject=${calls}:${inject}`];
  const tracer = spawn("strace", ["-f", ...paths, ...faults, "-p", String(child.pid)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  t.after(() => tracer.kill("SIGKILL"));
  const exited = once(tracer, "exit");
  // Read to its end: without a reader strace ends, and its faults with it.
  const said = new Promise<string>((resolve) => {
    let text = "";
    tracer.stderr.on("data", (chunk) => {
      text += String(chunk);
      if (text.includes("attached")) resolve(text);
    });
    tracer.stderr.on("end", () => resolve(text));
  });
  const text = await said;
  if (!text.includes("attached")) {
    return { failure: `strace may not attach: ${text.trim()}`, end };
  }
  return {
    failure: null,
    /** Detaches from the process, which continues without faults. */
    async end(): Promise<void> {
      tracer.kill("SIGINT");
      await exited;
    },
  };
}
