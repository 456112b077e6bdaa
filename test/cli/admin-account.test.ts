import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import { ORDERS_LISTED_MAX } from "../../src/domain/webhook/delivery.ts";
import { openDatabase } from "../../src/store/sqlite/machine/connection.ts";
import type { AuditEntry, Store } from "../../src/store/store.ts";
import { startWithWorker } from "../flow/worker-client.ts";
import { createTestAccount, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { deliveryFilter, seedEnded } from "../helpers/delivery.ts";
import { openNode } from "../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { SOURCES, runProgram } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import {
  T0,
  newAccessRequest,
  newAccount,
  newDatabaseFile,
  newKeyToStore,
  newPost,
  newRefusedTask,
  newTask,
  newTaskId,
  openTestStore,
  seedAccount,
} from "../helpers/store.ts";
import { columns, runHere } from "./in-process.ts";

interface Line extends Readonly<Record<string, unknown>> {
  readonly kind: string;
  /** Of a task, and of its deliveries. */
  readonly deliveries?: readonly Line[];
  readonly attempts?: readonly Line[];
}

function linesOf(text: string): readonly Line[] {
  assert.ok(text.endsWith("\n"), "the last line is whole");
  return text
    .slice(0, -1)
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
}

function ofKind(lines: readonly Line[], kind: string): readonly Line[] {
  return lines.filter((line) => line.kind === kind);
}

function exportAccount(t: TestContext, database: string, words: readonly string[]) {
  return runHere(t, ["admin", "account", "export", ...words, "--db", database]);
}

const HASH = createHash("sha256").update("a key").digest("hex");

function placeOrder(store: Store, login: string) {
  const order = { id: newTaskId(), perSecond: 5, createdAt: T0, openMax: null };
  return store.orderRedelivery({ ...order, filter: deliveryFilter({ login }) });
}

/** Fills a store with all that the account ada can have and a task of bob. Returns the ids of ada's tasks. */
async function seedAda(store: Store): Promise<readonly string[]> {
  const request = newAccessRequest();
  await store.insertAccessRequest(request);
  const firstKey = newKeyToStore({ hash: HASH, label: "first" });
  const account = newAccount({ firstKey, webhookSecret: "whsec_of_ada" });
  const approval = { id: request.id, decidedAt: T0, account };
  assert.equal(await store.approveAccessRequest(approval), "approved");
  const { accountId } = (await store.findAccount("ada")) ?? assert.fail("there is no ada");
  const [sent] = await seedEnded(store, accountId, { hosts: ["hooks.example.com"] });
  const waiting = newTask({ inputText: '{"n":12345678901234567890.10}', tag: "\u202e" });
  const refused = newRefusedTask();
  const traceText = JSON.stringify({ traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` });
  await store.insertTasks(newPost(accountId, [waiting], { refused: [refused], traceText }));
  await store.pauseDeliveries({
    accountId,
    host: null,
    since: T0,
    reason: "a move",
    pausedBy: "eve",
  });
  await placeOrder(store, "ada");
  const actor = { kind: "account", name: `ada ${firstKey.keyId}`, address: "192.0.2.1" } as const;
  const action = "delivery.redelivered" as const;
  await store.noteAudit({ at: T0, actor, action, subject: sent?.id ?? "", details: null });
  const [eve, details] = [
    { kind: "user", name: "eve", address: null } as const,
    { account: "ada" },
  ];
  await store.noteAudit({
    at: T0,
    actor: eve,
    action: "task.erased",
    subject: newTaskId(),
    details,
  });
  const bob = await seedAccount(store, "bob");
  await store.insertTasks(newPost(bob, [newTask({ inputText: '"of bob"' })]));
  return [sent?.id ?? "", waiting.id, refused.id];
}

interface OpenDatabase {
  readonly database: string;
  readonly store: Store;
}

const STORES: Readonly<Record<string, (t: TestContext) => Promise<OpenDatabase>>> = {
  async "a file"(t) {
    const database = newDatabaseFile(t);
    return { database, store: await openTestStore(t, { file: database }) };
  },
  async "a server"(t) {
    const database = await newDatabaseUrl(t);
    return { database, store: await openNode(t, database) };
  },
};

for (const [where, open] of Object.entries(STORES)) {
  const skip = where === "a server" && reasonToSkipPostgres();

  test(`an export from ${where} has all data of one account`, { skip }, async (t) => {
    const { database, store } = await open(t);
    const [sent, waiting, refused] = await seedAda(store);

    const { code, stdout, stderr } = await exportAccount(t, database, ["ada"]);

    assert.deepEqual([code, stderr], [0, ""]);
    const lines = linesOf(stdout);
    const kinds = {
      account: 1,
      key: 1,
      access_request: 1,
      pause: 1,
      order: 1,
      task: 3,
      audit: 3,
    };
    const end = lines.at(-1);
    assert.deepEqual([end?.kind, end?.["lines"], end?.["truncated"]], ["end", kinds, []]);
    for (const [kind, count] of Object.entries(kinds)) {
      assert.equal(ofKind(lines, kind).length, count, kind);
    }
    assert.equal(ofKind(lines, "access_request")[0]?.["email"], "eve@example.org");
    const tasks = new Map(ofKind(lines, "task").map((task) => [task["id"], task]));
    assert.deepEqual(new Set(tasks.keys()), new Set([sent, waiting, refused]));
    const [delivery] = tasks.get(sent)?.deliveries ?? [];
    assert.equal(delivery?.["state"], "given_up");
    assert.equal(delivery?.attempts?.length, 1);
    assert.equal(tasks.get(sent)?.["result"], 1);
    assert.match(stdout, /"input":\{"n":12345678901234567890\.10\}/);
    assert.ok(!stdout.includes("\u202e"));
    for (const secret of [HASH, "whsec_of_ada", "whsec_test", "of bob"]) {
      assert.ok(!stdout.includes(secret), secret);
    }
    const [entry] = await store.listAudit({ since: null, action: null, limit: 1, before: null });
    assert.deepEqual([entry?.action, entry?.subject], ["account.exported", "ada"]);
  });
}

/** A stopped database with the account ada. */
async function adaFile(t: TestContext): Promise<OpenDatabase> {
  const database = newDatabaseFile(t);
  const store = await openTestStore(t, { file: database });
  await seedAccount(store, "ada");
  return { database, store };
}

const YEAR_MS = 365 * 24 * 3600 * 1000;

test("an export of a new account has no audit of an earlier account with its login", async (t) => {
  for (const madeBy of ["account.created", "access.approved", null] as const) {
    const { database, store } = await adaFile(t);
    const actor = { kind: "account", name: "ada key_old", address: "192.0.2.9" } as const;
    const eve = { kind: "user", name: "eve", address: null } as const;
    const note = (entry: Pick<AuditEntry, "action"> & Partial<AuditEntry>) =>
      store.noteAudit({ at: T0, actor: eve, subject: "ada", details: null, ...entry });
    // The clock was a year ahead then.
    await note({ action: "key.created", actor, at: T0 + YEAR_MS, details: { key: "key_older" } });
    await note({ action: madeBy ?? "account.erased" });
    await note({ action: "worker.created" });
    await note({ action: "secret.shown" });

    const { code, stdout, stderr } = await exportAccount(t, database, ["ada"]);

    assert.deepEqual([code, stderr], [0, ""]);
    const own = ["account.exported", "secret.shown", ...(madeBy === null ? [] : [madeBy])];
    const entries = ofKind(linesOf(stdout), "audit");
    assert.deepEqual(columns(entries, "action").flat(), own);
  }
});

test("an export names the kinds that it cuts", async (t) => {
  const { database, store } = await adaFile(t);
  await placeOrder(store, "ada");
  await Promise.all(Array.from({ length: ORDERS_LISTED_MAX }, () => placeOrder(store, "bob")));
  const output = `${database}.jsonl`;

  const { code, stdout } = await exportAccount(t, database, ["ada", "--output", output]);

  assert.equal(code, 0);
  assert.match(stdout, /more of kind order/);
  assert.deepEqual(linesOf(readFileSync(output, "utf8")).at(-1)?.["truncated"], ["order"]);
});

test("an export while a daemon serves has large inputs and results of many pages", async (t) => {
  const daemon = await startTestDaemon(t);
  const large = "x".repeat(600_000);
  for (let i = 0; i < 3; i++)
    await daemon.post([{ type: "echo", input: large, tag: `large ${i}` }]);
  for (let i = 0; i < 6; i++) {
    await daemon.post(Array.from({ length: 100 }, () => ({ type: "echo", input: i })));
  }
  await daemon.daemon.idle();

  const { code, stdout } = await exportAccount(t, daemon.file, ["tester"]);

  assert.equal(code, 0);
  const tasks = ofKind(linesOf(stdout), "task");
  assert.equal(new Set(tasks.map(({ id }) => id)).size, 603);
  const whole = tasks.filter(({ result, data }) => {
    return result === large && (data as { readonly input: unknown }).input === large;
  });
  assert.equal(whole.length, 3);
});

test("an export makes a file for its user only, and replaces none", async (t) => {
  const { database } = await adaFile(t);
  const output = `${database}.jsonl`;
  const other = await exportAccount(t, database, ["bob", "--output", output]);
  assert.deepEqual([other.code, existsSync(output)], [1, false]);

  const made = await exportAccount(t, database, ["ada", "--output", output, "--json"]);
  const text = readFileSync(output, "utf8");
  const again = await exportAccount(t, database, ["ada", "--output", output]);
  const nowhere = await exportAccount(t, database, ["ada", "--output", join(database, "x")]);

  const counts = { account: 1, key: 1, audit: 1 };
  assert.deepEqual(JSON.parse(made.stdout), {
    login: "ada",
    file: output,
    lines: counts,
    truncated: [],
  });
  assert.equal(statSync(output).mode & 0o777, 0o600);
  assert.equal(linesOf(text).at(-1)?.kind, "end");
  assert.deepEqual([again.code, nowhere.code], [1, 1]);
  assert.ok(again.stderr.includes(output));
  assert.match(nowhere.stderr, /ENOTDIR/);
  assert.equal(readFileSync(output, "utf8"), text);
});

test("an export leaves no file if the disk is full", async (t) => {
  const { database, store } = await adaFile(t);
  const { accountId } = (await store.findAccount("ada")) ?? assert.fail("there is no ada");
  const inputText = JSON.stringify("x".repeat(900_000));
  const tasks = Array.from({ length: 4 }, () => newTask({ inputText }));
  await store.insertTasks(newPost(accountId, tasks));
  await store.close();
  const output = `${database}.jsonl`;
  // A file of this process may have 2 MiB: the database is not written beyond that.

  const { code, stderr } = await runProgram(
    t,
    ["admin", "account", "export", "ada", "--output", output, "--db", database],
    { command: ["sh", "-c", 'ulimit -f 4096; exec "$0" "$@"', ...SOURCES] },
  );

  assert.equal(code, 1);
  assert.match(stderr, /EFBIG/);
  assert.equal(existsSync(output), false);
});

test("an export that the audit cannot record writes nothing", async (t) => {
  const { database, store } = await adaFile(t);
  await store.close();
  const connection = new Database(database);
  // The last number is taken: SQLite refuses a further entry as it does on a full disk.
  connection.exec("INSERT INTO sqlite_sequence VALUES ('audit', 9223372036854775807)");
  connection.close();
  const output = `${database}.jsonl`;

  const toFile = await exportAccount(t, database, ["ada", "--output", output]);
  const toStdout = await exportAccount(t, database, ["ada"]);

  for (const { code, stdout, stderr } of [toFile, toStdout]) {
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, /full/);
  }
  assert.equal(existsSync(output), false);
});

const ERASE_TOML =
  '[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n[webhooks]\nretry_after = []\nallow = ["127.0.0.1"]\n';
const MARK = "only-of-this-account";

function admin(t: TestContext, { file }: Pick<TestDaemon, "file">, words: string) {
  return runHere(t, ["admin", "account", ...words.split(" "), "--db", file]);
}

/** The number of an account's rows in each table that has some. */
function rowsOf(file: string, accountId: number): Readonly<Record<string, number>> {
  const database = openDatabase(file, { readonly: true });
  const tables = ["tasks", "keys", "task_counts", "idempotency_keys", "traffic", "host_traffic"];
  const rows = [...tables, "host_counts", "host_failures", "access_requests"].map((table) => {
    const sql = `SELECT count(*) FROM ${table} WHERE account_seq = ?`;
    return [table, Number(database.prepare(sql).pluck().get(accountId))] as const;
  });
  const whole = ["task_inputs", "task_results", "deliveries", "attempts", "sessions"].map(
    (table) =>
      [table, Number(database.prepare(`SELECT count(*) FROM ${table}`).pluck().get())] as const,
  );
  database.close();
  return Object.fromEntries([...rows, ...whole].filter(([, count]) => count > 0));
}

function holds(file: string, text: string): boolean {
  const files = [file, `${file}-wal`].filter((each) => existsSync(each));
  return files.some((each) => readFileSync(each).includes(text));
}

/** A daemon whose account has tasks in every state, webhooks, stored responses and a failed host. */
async function startFilled(t: TestContext) {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const { daemon, worker } = await startWithWorker(t, { toml: ERASE_TOML });
  const body = JSON.stringify([{ type: "echo", input: MARK, tag: MARK }]);
  const headers = { "content-type": "application/json", "idempotency-key": MARK };
  await daemon.call("/v1/tasks/task_post", { method: "POST", headers, body });
  const big = Array.from({ length: 60 }, () => ({ type: "echo", input: MARK.repeat(600) }));
  for (let i = 0; i < 6; i++) await daemon.post(big);
  await daemon.post([{ type: "echo", postback_url: receiver.url(`/${MARK}`) }, { typo: MARK }]);
  await daemon.daemon.idle();
  await daemon.post([{ type: "print", tag: "runs" }]);
  const lease = await worker.claimOne();
  const start_at = new Date(Date.now() + 86_400_000).toISOString();
  await daemon.post([{ type: "print" }, { type: "print", start_at }]);
  return { daemon, worker, lease };
}

test("erase removes all data of a disabled account, also for a new account with its login, while the daemon serves others", async (t) => {
  const { daemon, worker, lease } = await startFilled(t);
  const { file } = daemon;
  const other = await createTestAccount(file, "other");
  const asOther = { authorization: `Bearer ${other.key}`, "content-type": "application/json" };
  const post = (task: object) =>
    daemon.call("/v1/tasks/task_post", {
      method: "POST",
      headers: asOther,
      body: JSON.stringify(task),
    });
  assert.equal((await post({ type: "echo", input: "kept" })).status, 200);

  const enabled = await admin(t, daemon, "erase tester --yes");
  assert.equal(enabled.code, 1);
  assert.match(enabled.stderr, /tester is enabled/);
  assert.equal((await admin(t, daemon, "disable tester")).code, 0);
  const unsure = await admin(t, daemon, "erase tester");
  assert.equal(unsure.code, 1);
  assert.match(unsure.stderr, /366 tasks .*--yes/);
  assert.equal(holds(file, MARK), true);

  const done = await admin(t, daemon, "erase tester --yes --json");

  assert.deepEqual([done.code, done.stderr], [0, ""]);
  assert.deepEqual(JSON.parse(done.stdout), {
    login: "tester",
    erased: true,
    tasks: 366,
    wal_emptied: true,
  });
  await daemon.daemon.idle();
  assert.deepEqual(rowsOf(file, 1), { task_inputs: 1, task_results: 1 });
  assert.equal(holds(file, MARK), false);
  // 9 MB were erased, and a step of reclaiming leaves some of it to the next tasks.
  assert.ok(statSync(file).size < 5 * 1024 ** 2, "the file shrinks");
  assert.equal((await daemon.call("/v1/tasks")).status, 401);
  assert.equal(await worker.complete(lease), "lost");
  const unknown = await admin(t, daemon, "erase tester --yes");
  assert.match(unknown.stderr, /account tester does not exist/);
  assert.equal((await post({ type: "echo", input: "again" })).status, 200);
  const listed = await daemon.call("/v1/tasks", { headers: asOther });
  assert.equal(((await listed.json()) as { tasks_count: number }).tasks_count, 2);
  await createTestAccount(file);
  await daemon.daemon.idle();
  assert.deepEqual(rowsOf(file, 3), { keys: 1, task_inputs: 2, task_results: 2 });
});
