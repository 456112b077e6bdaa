import assert from "node:assert/strict";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import type { SuspendedWork } from "../../src/domain/account/account.ts";
import { ACTIVE_KEYS_MAX, isWellFormedKey } from "../../src/domain/account/key.ts";
import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

interface KeyDocument {
  readonly key_id: string;
  readonly key: string;
  readonly prefix: string;
  readonly last_four: string;
  readonly label: string | null;
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly revoked_at: string | null;
}

/** All that an admin command may print; which fields it prints is what the tests are for. */
interface AdminDocument {
  readonly login: string;
  readonly created_at: string;
  readonly disabled_at: string | null;
  readonly webhook_secret: string;
  readonly database_created?: string;
  readonly key: KeyDocument;
  readonly keys: readonly KeyDocument[];
  readonly accounts: readonly Pick<
    AdminDocument,
    "login" | "created_at" | "disabled_at" | "held"
  >[];
  readonly held?: SuspendedWork | null;
  readonly resumed?: SuspendedWork | null;
}

/** Runs `admin … --json` in a folder, where it is expected to succeed. */
async function admin(t: TestContext, cwd: string, words: string): Promise<AdminDocument> {
  const { code, stdout, stderr } = await runAdmin(t, cwd, `${words} --json`);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  assert.match(stdout, /^\{.*\}\n$/, "one document on one line");
  return JSON.parse(stdout) as AdminDocument;
}

function runAdmin(t: TestContext, cwd: string, words: string) {
  return runProgram(t, ["admin", ...words.split(" ")], { cwd });
}

test("makes an account in a file that was not there, for its owner only", async (t) => {
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
  assert.equal(statSync(join(cwd, "postbackd.db")).mode & 0o777, 0o600);
});

test("shows both secrets of a new account to a person, and says that it is the only time", async (t) => {
  const cwd = temporaryFolder(t);
  const { code, stdout } = await runAdmin(t, cwd, "account create alice");

  assert.equal(code, 0);
  const shown = stdout
    .replace(join(cwd, "postbackd.db"), "FILE")
    .replace(/pbd_live_[0-9A-Za-z]{40}/, "KEY")
    .replace(/key_[0-9a-f]{32}/, "ID")
    .replace(/whsec_\S{44}/, "SECRET");
  assert.equal(
    shown,
    `\
login           alice
key             KEY
key_id          ID
webhook_secret  SECRET

Store the key now: it cannot be shown again.

There was no database: made FILE.
`,
  );
});

test("lists accounts and keys without their secrets", async (t) => {
  const cwd = temporaryFolder(t);
  const { key } = await admin(t, cwd, "account create alice");
  await admin(t, cwd, "key create alice --label ci");

  const accounts = await runAdmin(t, cwd, "account list");
  const keys = await runAdmin(t, cwd, "key list alice");
  const documents = await admin(t, cwd, "key list alice");

  assert.match(
    accounts.stdout,
    /^LOGIN  CREATED AT {16}DISABLED AT  HELD\nalice  \S{24}  -            -\n$/,
  );
  const [head, first, second] = keys.stdout.split("\n");
  assert.match(
    head ?? "",
    /^KEY ID +PREFIX +LAST FOUR +LABEL +CREATED AT +LAST USED AT +REVOKED AT$/,
  );
  assert.ok(first?.startsWith(`${key.key_id}  pbd_live_  ${key.last_four}       -      `));
  assert.match(second ?? "", /  ci     \S{24}  -             -$/);
  assert.deepEqual(documents.keys[0], {
    key_id: key.key_id,
    prefix: "pbd_live_",
    last_four: key.last_four,
    label: null,
    created_at: key.created_at,
    last_used_at: null,
    revoked_at: null,
  });
  assert.ok(!(accounts.stdout + keys.stdout).includes(key.key));
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

test("a command that makes nothing new refuses where there is no database, and leaves nothing behind", async (t) => {
  const cwd = temporaryFolder(t);
  for (const words of OTHERS) {
    const { code, stdout, stderr } = await runAdmin(t, cwd, words);
    assert.deepEqual({ code, stdout }, { code: 1, stdout: "" }, words);
    assert.ok(stderr.includes(`there is no database ${join(cwd, "postbackd.db")}; name one with`));
  }
  assert.deepEqual(readdirSync(cwd), []);
});

test("says which file it made, once", async (t) => {
  const cwd = temporaryFolder(t);

  const first = await runAdmin(t, cwd, "account create alice --db other.db");
  const second = await runAdmin(t, cwd, "account create bob --db other.db");

  const made = `There was no database: made ${join(cwd, "other.db")}.\n`;
  assert.ok(first.stdout.endsWith(made), first.stdout);
  assert.doesNotMatch(second.stdout, /made/);
});

test("lists no account where there is none", async (t) => {
  const cwd = temporaryFolder(t);
  await admin(t, cwd, "link");

  assert.deepEqual(await admin(t, cwd, "account list"), { accounts: [] });
  assert.match((await runAdmin(t, cwd, "account list")).stdout, /^There is no account yet; /);
});

test("changes what a running daemon answers on the very next request", async (t) => {
  const daemon = startProgram(t, ["start", "--port", "0"]);
  const { url } = await daemon.ready;
  const { cwd } = daemon;
  const codeOf = async (key: string): Promise<number> => {
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(`${url}/v1/tasks/tasks_ready`, { headers });
    return ((await response.json()) as { readonly status_code: number }).status_code;
  };

  const { key } = (await admin(t, cwd, "account create alice")).key;
  assert.equal(await codeOf(key), 20000);

  const second = (await admin(t, cwd, "key create alice --label ci")).key;
  assert.equal(await codeOf(second.key), 20000);

  const revoked = (await admin(t, cwd, `key revoke ${second.key_id}`)).key;
  assert.match(revoked.revoked_at ?? "", TIME);
  assert.equal(await codeOf(second.key), 40101);
  assert.equal(await codeOf(key), 20000);

  const disabled = await admin(t, cwd, "account disable alice");
  assert.match(disabled.disabled_at ?? "", TIME);
  assert.equal(await codeOf(key), 40102);
  assert.equal(await codeOf(second.key), 40101);

  const enabled = await admin(t, cwd, "account enable alice");
  assert.equal(enabled.disabled_at, null);
  assert.equal(await codeOf(key), 20000);
});

test("revokes and disables a second time without changing the first time", async (t) => {
  const cwd = temporaryFolder(t);
  const { key } = await admin(t, cwd, "account create alice");

  const disabled = await admin(t, cwd, "account disable alice");
  const revoked = await admin(t, cwd, `key revoke ${key.key_id}`);

  assert.deepEqual(await admin(t, cwd, "account disable alice"), disabled);
  assert.deepEqual(await admin(t, cwd, `key revoke ${key.key_id}`), revoked);
});

test("refuses a key beyond the limit until one is revoked", async (t) => {
  const cwd = temporaryFolder(t);
  const { key } = await admin(t, cwd, "account create alice");
  for (let count = 1; count < ACTIVE_KEYS_MAX; count++) await admin(t, cwd, "key create alice");

  const refused = await runAdmin(t, cwd, "key create alice");
  await admin(t, cwd, `key revoke ${key.key_id}`);

  assert.deepEqual({ code: refused.code, stdout: refused.stdout }, { code: 1, stdout: "" });
  assert.match(refused.stderr, /has 20 active keys, the most there can be/);
  await admin(t, cwd, "key create alice");
});

const FAILING: readonly [words: string, stderr: RegExp][] = [
  ["account create alice", /^postbackd: the login alice exists already; .*key create alice/],
  ["account disable bob", /^postbackd: there is no account bob; /],
  ["account enable bob", /^postbackd: there is no account bob; /],
  ["key create bob", /^postbackd: there is no account bob; /],
  ["key list bob", /^postbackd: there is no account bob; /],
  ["key revoke key_0", /^postbackd: there is no key with this id; /],
  [`key revoke pbd_live_${"a".repeat(40)}`, /^postbackd: this is a key, not the id of one; [^a]/],
  [
    "account list --db no-such-folder/x.db",
    /\/x\.db cannot be opened: the folder .*no-such-folder does not exist; make it/,
  ],
  ["account list --db postbackd.db/x.db", /the folder .*\/postbackd\.db does not exist; make it/],
  ["account list --db .", /cannot be opened: it is a folder; name a file in it with --db\n$/],
];

test("exits with 1 and one sentence on stderr when it cannot be done", async (t) => {
  const cwd = temporaryFolder(t);
  await admin(t, cwd, "account create alice");

  for (const [words, stderr] of FAILING) {
    const finished = await runAdmin(t, cwd, `${words} --json`);
    assert.equal(finished.code, 1, words);
    assert.match(finished.stderr, stderr);
    assert.doesNotMatch(finished.stderr, /aaaa/);
  }
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
    const end = await runProgram(t, `${line} --json`.split(" "), { cwd });
    const { error } = JSON.parse(end.stdout) as { error: Record<string, unknown> };
    assert.deepEqual([end.code, error["code"]], [exit, code], line);
    assert.deepEqual(Object.keys(error), ["code", "message", "remedy"]);
    assert.equal(error["remedy"] !== null, hasRemedy, line);
    assert.ok(end.stderr.includes(String(error["message"])), line);
  }
});

test("exits with 2 and touches no file when a login or a label is none", async (t) => {
  const cwd = temporaryFolder(t);
  const cases: readonly (readonly string[])[] = [
    ["account", "create", "a b"],
    ["account", "disable", "é"],
    ["key", "list", ""],
    ["account", "create", ".."],
    ["key", "create", "alice", "--label", "line\nbreak"],
    ["key", "create", "alice", "--label", "é".repeat(101)],
  ];

  for (const words of cases) {
    const { code, stdout, stderr } = await runProgram(t, ["admin", ...words], { cwd });
    assert.deepEqual([code, stdout], [2, ""], words.join(" "));
    assert.match(
      stderr,
      /^postbackd: (LOGIN must be 1 to 64 characters|--label must be a string of at most 100)/,
    );
  }
  assert.equal(existsSync(join(cwd, "postbackd.db")), false);
});

test("counts a label in code points", async (t) => {
  const cwd = temporaryFolder(t);
  await admin(t, cwd, "account create alice");

  const { key } = await admin(t, cwd, `key create alice --label ${"😀".repeat(100)}`);

  assert.equal(key.label, "😀".repeat(100));
});

test("exits with 78 when the configuration is wrong, but does not ask how the daemon listens", async (t) => {
  const cwd = temporaryFolder(t);
  const words = ["admin", "account", "list"];

  const wrong = await runProgram(t, words, { cwd, env: { POSTBACKD_DBB: "x.db" } });
  await admin(t, cwd, "account create alice");
  const beyond = await runProgram(t, words, { cwd, env: { POSTBACKD_HOST: "0.0.0.0" } });

  assert.equal(wrong.code, 78);
  assert.match(wrong.stderr, /POSTBACKD_DBB.*the nearest known one is POSTBACKD_DB\n$/);
  assert.equal(beyond.code, 0);
});
