import assert from "node:assert/strict";
import { existsSync, readFileSync, statSync } from "node:fs";
import { test, type TestContext } from "node:test";

import { openDatabase } from "../../src/store/sqlite/machine/connection.ts";
import { startWithWorker } from "../flow/worker-client.ts";
import { createTestAccount, type TestDaemon } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { runHere } from "./in-process.ts";

const TOML =
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
  const { daemon, worker } = await startWithWorker(t, { toml: TOML });
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

test("erase removes all data of a disabled account while the daemon serves others", async (t) => {
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
});

test("a new account with the login of an erased account has no data of it", async (t) => {
  const { daemon } = await startWithWorker(t, { toml: TOML });
  await daemon.post([{ type: "echo" }]);
  await daemon.daemon.idle();
  await admin(t, daemon, "disable tester");
  await admin(t, daemon, "erase tester --yes");

  const again = await createTestAccount(daemon.file);

  const headers = { authorization: `Bearer ${again.key}` };
  const listed = await daemon.call("/v1/tasks", { headers });
  assert.equal(((await listed.json()) as { tasks_count: number }).tasks_count, 0);
  assert.deepEqual(rowsOf(daemon.file, 1), {});
  assert.deepEqual(rowsOf(daemon.file, 2), { keys: 1 });
  assert.equal((await daemon.call("/v1/tasks")).status, 401);
});
