import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import { ACTIVE_KEYS_MAX, isWellFormedKey } from "../../src/domain/account/key.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { columns, documentOf, runHere } from "./in-process.ts";

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
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
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

test("a second revocation or disabling keeps the time of the first", async (t) => {
  const cwd = temporaryFolder(t);
  const { key } = await admin(t, cwd, "account create alice");

  const disabled = await admin(t, cwd, "account disable alice");
  const revoked = await admin(t, cwd, `key revoke ${key.key_id}`);

  assert.deepEqual(await admin(t, cwd, "account disable alice"), disabled);
  assert.deepEqual(await admin(t, cwd, `key revoke ${key.key_id}`), revoked);
});

test("key create refuses a key beyond the limit until a key is revoked", async (t) => {
  const cwd = temporaryFolder(t);
  const { key } = await admin(t, cwd, "account create alice");
  for (let count = 1; count < ACTIVE_KEYS_MAX; count++) await admin(t, cwd, "key create alice");

  const refused = await runAdmin(t, cwd, "key create alice");
  await admin(t, cwd, `key revoke ${key.key_id}`);

  assert.deepEqual({ code: refused.code, stdout: refused.stdout }, { code: 1, stdout: "" });
  assert.match(refused.stderr, /20 active keys/);
  await admin(t, cwd, "key create alice");
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
