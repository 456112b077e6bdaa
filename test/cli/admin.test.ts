import assert from "node:assert/strict";
import { readdirSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import {
  ACTIVE_KEYS_MAX,
  isWellFormedKey,
  isWellFormedWorkerToken,
  newKey,
  newWorkerToken,
} from "../../src/domain/account/key.ts";
import { temporaryFolder } from "../helpers/program.ts";
import {
  makeDatabase,
  NEW_TASK_BYTES,
  newKeyToStore,
  newPost,
  newTask,
  openTestStore,
  seedAccount,
  T0,
} from "../helpers/store.ts";
import { columns, documentOf, runHere } from "./in-process.ts";

const SECRET = /^whsec_[A-Za-z0-9+/]{43}=$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

function admin(t: TestContext, cwd: string, words: string) {
  return documentOf(t, ["admin", ...words.split(" ")], { cwd });
}

function runAdmin(t: TestContext, cwd: string, words: string) {
  return runHere(t, ["admin", ...words.split(" ")], { cwd });
}

test("account create makes the database and reports it once", async (t) => {
  const cwd = temporaryFolder(t);

  const created = await admin(t, cwd, "account create alice");

  const { key, webhook_secret: secret, database_created: file, ...account } = created;
  assert.equal(file, join(cwd, "postbackd.db"));
  assert.deepEqual(account, { login: "alice", created_at: account.created_at, disabled_at: null });
  assert.match(account.created_at, TIME);
  assert.match(secret, SECRET);
  assert.ok(isWellFormedKey(key.key));
  assert.match(key.key_id, /^key_[0-9a-f]{32}$/);
  assert.deepEqual(key, {
    key_id: key.key_id,
    key: key.key,
    prefix: "pbd_live_",
    last_four: key.key.slice(-4),
    label: null,
    created_at: account.created_at,
  });
  const second = await admin(t, cwd, "account create bob");
  assert.equal("database_created" in second, false);
});

test("lists of accounts and keys have no secrets", async (t) => {
  const cwd = temporaryFolder(t);
  const { key, created_at } = await admin(t, cwd, "account create alice");
  await admin(t, cwd, `key create alice --label ${"😀".repeat(100)}`);

  const { accounts } = await admin(t, cwd, "account list");
  const { keys } = await admin(t, cwd, "key list alice");

  assert.deepEqual(accounts, [{ login: "alice", created_at, disabled_at: null, held: null }]);
  assert.deepEqual(columns(keys, "label"), [[null], ["😀".repeat(100)]]);
  assert.deepEqual(keys[0], {
    key_id: key.key_id,
    prefix: "pbd_live_",
    last_four: key.last_four,
    label: null,
    created_at: key.created_at,
    last_used_at: null,
    revoked_at: null,
  });
});

const OTHERS = [
  ...[
    "account list",
    "account disable alice",
    "key create alice",
    "key list alice",
    "key revoke k",
  ],
  ...["secret show alice", "access list", "worker list", "worker revoke w", "delivery list"],
  ...["delivery orders", "delivery show 00000000-0000-7000-8000-000000000000"],
];

test("a command that makes no account refuses a missing database and leaves no file", async (t) => {
  const cwd = temporaryFolder(t);
  for (const words of OTHERS) {
    const { code, stdout, stderr } = await runAdmin(t, cwd, words);
    assert.deepEqual({ code, stdout }, { code: 1, stdout: "" }, words);
    assert.ok(stderr.includes(join(cwd, "postbackd.db")));
  }
  assert.deepEqual(readdirSync(cwd), []);
});

test("key create refuses a key beyond the limit", async (t) => {
  const cwd = temporaryFolder(t);
  const store = await openTestStore(t, { file: join(cwd, "postbackd.db") });
  await seedAccount(store, "alice");
  const limits = { login: "alice", createdAt: T0, activeMax: ACTIVE_KEYS_MAX };
  for (let count = 1; count < ACTIVE_KEYS_MAX; count++) {
    await store.createKey({ ...limits, ...newKeyToStore() });
  }
  await store.close();

  const { code, stdout, stderr } = await runAdmin(t, cwd, "key create alice");

  assert.deepEqual([code, stdout], [1, ""]);
  assert.match(stderr, /20 active keys/);
});

test("an error with --json is a document with code, message and remedy", async (t) => {
  const cwd = temporaryFolder(t);
  const cases: readonly [line: string, exit: number, code: string, hasRemedy: boolean][] = [
    ["admin account create", 2, "usage", true],
    ["admin account nonsense", 2, "usage", true],
    ["admin key list --bogus", 2, "usage", true],
    ["listen --url http://127.0.0.1:1", 2, "usage", true],
    ["admin account list --db postgres://x:y@127.0.0.1:1/z", 1, "failed", false],
    ["admin key revoke key_0", 1, "failed", true],
    ["admin account list --config missing.toml", 78, "configuration", false],
  ];
  await admin(t, cwd, "account create ada");
  for (const [line, exit, code, hasRemedy] of cases) {
    const end = await runHere(t, `${line} --json`.split(" "), { cwd });
    const { error } = JSON.parse(end.stdout) as { error: Record<string, unknown> };
    assert.deepEqual([end.code, error["code"]], [exit, code], line);
    assert.deepEqual(Object.keys(error), ["code", "message", "remedy"]);
    assert.equal(error["remedy"] !== null, hasRemedy, line);
    assert.ok(end.stderr.includes(String(error["message"])), line);
  }
});

test("an admin command does not judge the address to listen on", async (t) => {
  const cwd = temporaryFolder(t);
  await admin(t, cwd, "account create alice");
  const env = { POSTBACKD_HOST: "0.0.0.0" };
  assert.equal((await runHere(t, ["admin", "account", "list"], { cwd, env })).code, 0);
});

test("a rotation of the secret shows both secrets until it is finished, then the new one alone", async (t) => {
  const cwd = temporaryFolder(t);
  const { webhook_secret: first } = await admin(t, cwd, "account create alice");
  const before = { login: "alice", webhook_secret: first, webhook_secret_next: null };
  assert.deepEqual(await admin(t, cwd, "secret show alice"), before);

  const rotating = await admin(t, cwd, "secret rotate alice");
  const again = await runAdmin(t, cwd, "secret rotate alice");

  const { webhook_secret_next: next } = rotating;
  assert.match(next, SECRET);
  assert.notEqual(next, first);
  assert.deepEqual(rotating, { ...before, webhook_secret_next: next });
  assert.equal(again.code, 1);
  assert.match(again.stderr, /secret finish alice/);
  assert.deepEqual(await admin(t, cwd, "secret show alice"), rotating);
  const after = { login: "alice", webhook_secret: next, webhook_secret_next: null };
  assert.deepEqual(await admin(t, cwd, "secret finish alice"), after);
  assert.deepEqual(await admin(t, cwd, "secret show alice"), after);
});

test("the audit lists the commands of a user, newest first, without secrets", async (t) => {
  const cwd = temporaryFolder(t);
  await makeDatabase(join(cwd, "postbackd.db"));
  const made = await admin(t, cwd, "account create ada");
  const { key } = await admin(t, cwd, "key create ada");
  await admin(t, cwd, `key revoke ${key.key_id}`);
  await admin(t, cwd, "secret show ada");
  await admin(t, cwd, "delivery pause --account ada --reason maintenance");

  const { entries } = await admin(t, cwd, "audit");
  const page = await admin(t, cwd, "audit --action key.revoked --limit 1 --since 1h");
  const ofAda = await admin(t, cwd, "audit --account ada --limit 2");
  const ofOthers = await admin(t, cwd, "audit --account adam");

  assert.deepEqual(columns(entries, "action", "subject"), [
    ["delivery.paused", "ada"],
    ["secret.shown", "ada"],
    ["key.revoked", key.key_id],
    ["key.created", "ada"],
    ["account.created", "ada"],
  ]);
  for (const { actor } of entries) {
    assert.deepEqual([actor.kind, actor.name], ["user", userInfo().username]);
  }
  assert.deepEqual(ofAda.entries, entries.slice(0, 2));
  assert.equal(typeof ofAda.next_cursor, "string");
  assert.deepEqual(ofOthers, { entries: [], next_cursor: null });
  assert.deepEqual(entries[0]?.details, { host: null, reason: "maintenance" });
  const text = JSON.stringify(entries);
  for (const secret of [made.key.key, key.key, made.webhook_secret]) {
    assert.ok(!text.includes(secret));
  }
  assert.deepEqual([page.entries.length, page.next_cursor], [1, null]);
});

test("account limit shows each limit with its use and source, sets an account's own and resets it", async (t) => {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), "[limits.account]\nopen_tasks = 50\n");
  const store = await openTestStore(t, { file: join(cwd, "postbackd.db") });
  await store.insertTasks(newPost(await seedAccount(store, "ada"), [newTask()]));
  await store.close();
  const file = `file ${join(cwd, "postbackd.toml")}`;
  const shown = (words = "") => admin(t, cwd, `account limit ada${words}`);
  const standard = [
    { limit: "bytes", value: 10 * 1024 ** 3, used: NEW_TASK_BYTES, source: "default" },
    { limit: "open_tasks", value: 50, used: 1, source: file },
    { limit: "requests_per_minute", value: 0, used: null, source: "default" },
    { limit: "tasks_per_minute", value: 0, used: null, source: "default" },
  ];
  const [bytes, openTasks, requests, tasks] = standard;

  assert.deepEqual(await shown(), { login: "ada", limits: standard });
  const own = [
    { ...bytes, value: 2 * 1024 ** 3, source: "account" },
    { ...openTasks, value: 0, source: "account" },
    { ...requests, value: 600, source: "account" },
    tasks,
  ];
  const changed = await shown(" --bytes=2GiB --open-tasks=0 --requests-per-minute=600");
  assert.deepEqual(changed, { login: "ada", limits: own });
  assert.deepEqual(await shown(), changed);
  for (const wrong of ["ada --bytes 1 --tasks-per-minute x", "bob --bytes 1"]) {
    assert.notEqual((await runAdmin(t, cwd, `account limit ${wrong}`)).code, 0);
    assert.deepEqual(await shown(), changed);
  }
  assert.deepEqual(await shown(" --bytes=default --tasks-per-minute 7"), {
    login: "ada",
    limits: [bytes, own[1], own[2], { ...tasks, value: 7, source: "account" }],
  });
});

const WORKER_TOML = '[types.resize]\nrunner = "worker"\n[types.ocr]\nrunner = "worker"\n';

/** A folder with a database and a configuration with two types for workers. */
async function workerFolder(t: TestContext): Promise<string> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), WORKER_TOML);
  await makeDatabase(join(cwd, "postbackd.db"));
  return cwd;
}

test("worker create makes a worker and shows its token once", async (t) => {
  const cwd = await workerFolder(t);

  const created = await admin(t, cwd, "worker create w-1 --type resize --type ocr --type resize");
  const listed = await admin(t, cwd, "worker list");

  const { token, created_at } = created.worker;
  assert.ok(isWellFormedWorkerToken(token));
  assert.match(created_at, TIME);
  const shown = {
    ...{ name: "w-1", prefix: "pbd_work_", last_four: token.slice(-4) },
    ...{ types: ["resize", "ocr"], created_at },
  };
  assert.deepEqual(created, { worker: { ...shown, token } });
  const unused = { last_seen_at: null, leases: 0, revoked_at: null };
  assert.deepEqual(listed, { workers: [{ ...shown, ...unused }] });
});

test("worker create warns of types that the configuration does not run by workers", async (t) => {
  const cwd = temporaryFolder(t);

  const finished = await runAdmin(t, cwd, "worker create w --type a.b --type echo --json");

  assert.equal(finished.code, 0);
  assert.ok(isWellFormedWorkerToken(JSON.parse(finished.stdout).worker.token));
  const [first = "", second = ""] = finished.stderr.split("\n");
  assert.match(first, /warning: .*\[types\."a\.b"\]/);
  assert.match(second, /warning: .*\[types\.echo\]/);
});

test("a name has one active worker at a time", async (t) => {
  const cwd = await workerFolder(t);
  const first = await admin(t, cwd, "worker create w --type ocr");

  const taken = await runAdmin(t, cwd, "worker create w --type ocr");
  const revoked = await admin(t, cwd, "worker revoke w");
  const again = await admin(t, cwd, "worker revoke w");
  const second = await admin(t, cwd, "worker create w --type ocr");

  assert.deepEqual([taken.code, taken.stdout], [1, ""]);
  assert.match(taken.stderr, /worker revoke w/);
  assert.match(revoked.worker.revoked_at, TIME);
  assert.equal(revoked.worker.last_four, first.worker.last_four);
  assert.deepEqual(again, revoked);
  const { workers } = await admin(t, cwd, "worker list");
  assert.deepEqual(columns(workers, "last_four", "revoked_at"), [
    [second.worker.last_four, null],
    [first.worker.last_four, revoked.worker.revoked_at],
  ]);
});

test("no message repeats a token that is given as the name of a worker", async (t) => {
  const cwd = await workerFolder(t);
  const token = newWorkerToken().key;

  for (const given of [token, newKey().key, `Bearer=${token}`, token.slice(0, -2)]) {
    for (const words of [`worker create ${given} --type ocr`, `worker revoke ${given}`]) {
      const { code, stdout, stderr } = await runAdmin(t, cwd, words);
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, /NAME/);
      assert.ok(!stderr.includes(given.slice(9, 30)), stderr);
    }
  }
});
