import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import Database from "better-sqlite3";

import { PENDING_REQUESTS_MAX } from "../../src/domain/account/account.ts";
import { hashKey, isWellFormedKey } from "../../src/domain/account/key.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { NewAccessRequest, Store } from "../../src/store/store.ts";
import { runProgram, temporaryFolder } from "../helpers/program.ts";
import { makeDatabase, newAccessRequest } from "../helpers/store.ts";

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const T0_TEXT = "2030-01-31T09:00:00.000Z";
const UNKNOWN = "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6";

interface RequestDocument {
  readonly request_id: string;
  readonly email: string;
  readonly name: string | null;
  readonly company: string | null;
  readonly message: string | null;
  readonly created_at: string;
  readonly decision: string | null;
  readonly decided_at: string | null;
  readonly login: string | null;
}

/** All that a command about access may print; which fields it prints is what the tests are for. */
interface AccessDocument extends RequestDocument {
  readonly requests: readonly RequestDocument[];
  readonly has_more: boolean;
  readonly webhook_secret: string;
  readonly key: { readonly key: string; readonly key_id: string };
}

function runAdmin(t: TestContext, cwd: string, words: string) {
  return runProgram(t, ["admin", ...words.split(" ")], { cwd });
}

/** Runs `admin access … --json` in a folder, where it is expected to succeed. */
async function access(t: TestContext, cwd: string, words: string): Promise<AccessDocument> {
  const { code, stdout, stderr } = await runAdmin(t, cwd, `access ${words} --json`);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  assert.match(stdout, /^\{.*\}\n$/, "one document on one line");
  return JSON.parse(stdout) as AccessDocument;
}

/** Does something to the database of a folder, in which no program runs. */
async function withStore<Value>(
  cwd: string,
  step: (store: Store) => Promise<Value>,
): Promise<Value> {
  const file = join(cwd, "postbackd.db");
  const store = await openSqliteStore({ file, writer: "inline", backlogMax: 100 });
  try {
    return await step(store);
  } finally {
    await store.close();
  }
}

/** Leaves a request for access in a folder's database. Answers its id. */
async function seedRequest(cwd: string, given: Partial<NewAccessRequest> = {}): Promise<string> {
  const request = newAccessRequest(given);
  assert.equal(await withStore(cwd, (store) => store.insertAccessRequest(request)), "stored");
  return request.id;
}

test("prints what strangers wrote so that it cannot act on a terminal, one line for each", async (t) => {
  const cwd = temporaryFolder(t);
  const evil = "\u001b[2J\u009b31m\u202egnp.exe\u{e0041}\u0007";
  const fields = {
    ...{ email: "eve@example.org", name: `Eve\n${evil}`, company: `\r${evil}` },
    message: `line one\nline two ${evil}\u2028${"x".repeat(4000)}`,
  };
  await seedRequest(cwd, { fields });

  const { stdout } = await runAdmin(t, cwd, "access list");
  const json = await runAdmin(t, cwd, "access list --json");
  const listed = await access(t, cwd, "list");

  assert.equal(stdout.split("\n").length, 3, "a head, a request and the end");
  assert.match(stdout, /eve@example\.org  Eve \ufffd\[2J\ufffd31m\ufffdgnp\.exe/);
  assert.match(stdout, /  line one line two .{22}…\n$/u);
  for (const text of [stdout, json.stdout])
    assert.doesNotMatch(text, /(?!\n)[\p{Cc}\p{Cf}\u2028]/u);
  const [request] = listed.requests;
  assert.deepEqual(
    { ...fields, name: request?.name, company: request?.company, message: request?.message },
    fields,
  );
});

test("lists what waits, oldest first, and with --all what was decided too", async (t) => {
  const cwd = temporaryFolder(t);
  const fields = { email: "ann@b.example", name: null, company: null, message: null };
  const first = await seedRequest(cwd, { fields });
  const second = await seedRequest(cwd);
  const third = await seedRequest(cwd);
  const approved = await access(t, cwd, `approve ${first} --login ann`);
  const denied = await access(t, cwd, `deny ${second}`);

  const pending = await access(t, cwd, "list");
  const all = await access(t, cwd, "list --all");

  const undecided = { created_at: T0_TEXT, decision: null, decided_at: null, login: null };
  const eve = { email: "eve@example.org", name: "Eve", company: null, message: "Please." };
  assert.deepEqual(pending, {
    requests: [{ request_id: third, ...eve, ...undecided }],
    has_more: false,
  });
  assert.deepEqual(
    all.requests.map(({ request_id: id, decision, login }) => [id, decision, login]),
    [
      [first, "approved", "ann"],
      [second, "denied", null],
      [third, null, null],
    ],
  );
  const [one, two] = all.requests;
  assert.equal(one?.decided_at, approved.created_at);
  assert.equal(two?.decided_at, denied.decided_at);
  const { stdout } = await runAdmin(t, cwd, "access list --all");
  const head = `REQUEST ID${" ".repeat(26)}`;
  assert.equal(
    stdout,
    `\
${head}  EMAIL            NAME  COMPANY  CREATED AT                DECIDED AT                DECISION         MESSAGE
${first}  ann@b.example    -     -        ${T0_TEXT}  ${one?.decided_at}  approved as ann  -
${second}  eve@example.org  Eve   -        ${T0_TEXT}  ${two?.decided_at}  denied           Please.
${third}  eve@example.org  Eve   -        ${T0_TEXT}  -                         -                Please.
`,
  );
});

test("cuts the texts of a table between whole characters, and those of JSON not at all", async (t) => {
  const cwd = temporaryFolder(t);
  const fields = {
    ...{ email: `${"e".repeat(60)}@b.example`, name: "😀".repeat(21), company: "c".repeat(20) },
    message: " a\t\n  b ",
  };
  await seedRequest(cwd, { fields });

  const { stdout } = await runAdmin(t, cwd, "access list");
  const { requests } = await access(t, cwd, "list");

  assert.ok(stdout.includes(`  ${fields.email}  ${"😀".repeat(20)}…  ${"c".repeat(20)}  `));
  assert.ok(stdout.endsWith(`  a b\n`));
  assert.equal(requests[0]?.name, fields.name);
  assert.equal(requests[0].message, fields.message);
});

test("says so when nothing waits, or nobody ever asked", async (t) => {
  const cwd = temporaryFolder(t);
  await makeDatabase(join(cwd, "postbackd.db"));

  assert.deepEqual(await access(t, cwd, "list"), { requests: [], has_more: false });
  const pending = await runAdmin(t, cwd, "access list");
  const all = await runAdmin(t, cwd, "access list --all");

  assert.match(pending.stdout, /^No access request waits for a decision; .*list --all/);
  assert.equal(all.stdout, "No access request exists.\n");
});

test("approves a request: makes the account and shows its key and secret once", async (t) => {
  const cwd = temporaryFolder(t);
  const id = await seedRequest(cwd);

  const approved = await access(t, cwd, `approve ${id} --login alice`);

  const { key, webhook_secret: secret, created_at: createdAt, ...rest } = approved;
  assert.deepEqual(rest, { request_id: id, login: "alice", disabled_at: null });
  assert.match(createdAt, TIME);
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  assert.ok(isWellFormedKey(key.key));
  const holder = await withStore(cwd, (store) => store.findKeyHolder(hashKey(key.key)));
  assert.equal(holder?.login, "alice");
  const secrets = await withStore(cwd, (store) => store.findSecrets("alice"));
  assert.equal(secrets?.webhookSecret, secret);
  assert.equal(holder.keyId, key.key_id);
});

test("shows a person the same of an approval as of a new account", async (t) => {
  const cwd = temporaryFolder(t);
  const id = await seedRequest(cwd);

  const { code, stdout } = await runAdmin(t, cwd, `access approve ${id} --login alice`);

  assert.equal(code, 0);
  const shown = stdout
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
`,
  );
});

test("denies a request", async (t) => {
  const cwd = temporaryFolder(t);
  const [first, second] = [await seedRequest(cwd), await seedRequest(cwd)];

  const denied = await access(t, cwd, `deny ${first}`);
  const shown = await runAdmin(t, cwd, `access deny ${second}`);

  assert.match(denied.decided_at ?? "", TIME);
  const decision = { decision: "denied", decided_at: denied.decided_at, login: null };
  assert.deepEqual(denied, { request_id: first, ...decision });
  assert.equal(shown.stdout, `Access request ${second} is denied.\n`);
  assert.deepEqual(await withStore(cwd, (store) => store.listAccounts()), []);
});

test("denies all requests of an age, and records who did it", async (t) => {
  const cwd = temporaryFolder(t);
  const old = await seedRequest(cwd, { createdAt: Date.now() - 7_200_000 });
  const fresh = await seedRequest(cwd, { createdAt: Date.now() });

  assert.deepEqual(await access(t, cwd, "deny --all --older-than 1h"), { denied: 1 });
  const { requests } = await access(t, cwd, "list --all");
  assert.deepEqual(
    requests.map(({ request_id: id, decision }) => [id, decision]),
    [
      [old, "denied"],
      [fresh, null],
    ],
  );
  assert.deepEqual(await access(t, cwd, "deny --all"), { denied: 1 });
  assert.deepEqual(await access(t, cwd, "deny --all"), { denied: 0 });
  const query = { since: null, action: "access.denied", limit: 9, before: null } as const;
  const entries = await withStore(cwd, (store) => store.listAudit(query));
  assert.deepEqual(
    entries.map(({ subject, actor }) => [subject, actor.kind]),
    [
      [null, "user"],
      [null, "user"],
    ],
  );
});

test("refuses to decide a request a second time, and makes no second account", async (t) => {
  const cwd = temporaryFolder(t);
  const [approved, denied] = [await seedRequest(cwd), await seedRequest(cwd)];
  await access(t, cwd, `approve ${approved} --login alice`);
  await access(t, cwd, `deny ${denied}`);
  const before = await access(t, cwd, "list --all");

  for (const id of [approved, denied]) {
    for (const words of [`approve ${id} --login bob`, `deny ${id}`]) {
      const { code, stderr } = await runAdmin(t, cwd, `access ${words} --json`);
      assert.equal(code, 1, words);
      assert.match(stderr, /^postbackd: this access request was decided already; .*list --all'/);
    }
  }

  assert.deepEqual(await access(t, cwd, "list --all"), before);
  assert.equal((await withStore(cwd, (store) => store.listAccounts())).length, 1);
});

test("makes exactly one account when two programs approve at once", async (t) => {
  const cwd = temporaryFolder(t);
  const id = await seedRequest(cwd);

  const finished = await Promise.all(
    ["alice", "bob"].map((login) => runAdmin(t, cwd, `access approve ${id} --login ${login}`)),
  );

  const [one, other] = finished.map(({ code }) => code);
  assert.ok((one === 0 && other === 1) || (one === 1 && other === 0), `${one} and ${other}`);
  assert.equal((await withStore(cwd, (store) => store.listAccounts())).length, 1);
});

test("leaves a request waiting when the login is taken, to be approved with another", async (t) => {
  const cwd = temporaryFolder(t);
  const [first, second] = [await seedRequest(cwd), await seedRequest(cwd)];
  await access(t, cwd, `approve ${first} --login alice`);

  const taken = await runAdmin(t, cwd, `access approve ${second} --login alice --json`);

  assert.equal(taken.code, 1);
  assert.match(taken.stderr, /^postbackd: the login alice exists already .*another --login\n$/);
  const { requests } = await access(t, cwd, "list");
  assert.deepEqual(
    requests.map(({ request_id: id }) => id),
    [second],
  );
  assert.equal((await access(t, cwd, `approve ${second} --login alice2`)).login, "alice2");
});

const FAILING: readonly [words: readonly string[], code: number, stderr: RegExp][] = [
  [
    ["approve", UNKNOWN, "--login", "a"],
    1,
    /^postbackd: there is no access request with this id; /,
  ],
  [["deny", UNKNOWN], 1, /^postbackd: there is no access request with this id; /],
  [["deny", "\u001b[2Jaaaa"], 1, /^postbackd: there is no access request with this id; [^a]/],
  [["deny", ""], 1, /^postbackd: there is no access request with this id; /],
  [["approve", UNKNOWN], 2, /^postbackd: --login is missing\n/],
  [["approve", UNKNOWN, "--login", "a b"], 2, /^postbackd: --login must be 1 to 64 characters/],
  [["approve", UNKNOWN, "--login="], 2, /^postbackd: --login must be 1 to 64 characters/],
  [["approve", "--login", "a"], 2, /^postbackd: REQUEST_ID is missing\n/],
  [["deny"], 2, /^postbackd: give REQUEST_ID or --all\n/],
  [["deny", UNKNOWN, "--all"], 2, /^postbackd: give REQUEST_ID or --all\n/],
  [["deny", UNKNOWN, "--older-than", "1h"], 2, /^postbackd: --older-than goes with --all\n/],
  [["deny", "--all", "--older-than", "1"], 2, /^postbackd: --older-than needs a unit/],
  [["list", "pending"], 2, /^postbackd: unexpected argument "pending"\n/],
];

test("says why a request cannot be decided", async (t) => {
  const cwd = temporaryFolder(t);
  await makeDatabase(join(cwd, "postbackd.db"));

  for (const [words, code, stderr] of FAILING) {
    const finished = await runProgram(t, ["admin", "access", ...words, "--json"], { cwd });
    assert.equal(finished.code, code, words.join(" "));
    assert.match(finished.stderr, stderr);
    assert.doesNotMatch(finished.stderr, /\u001b|aaaa/);
  }
  assert.deepEqual(await withStore(cwd, (store) => store.listAccounts()), []);
});

test("says that a list ends too early when it does", async (t) => {
  const cwd = temporaryFolder(t);
  const listedMax = 2 * PENDING_REQUESTS_MAX;
  await seedRequest(cwd);
  const connection = new Database(join(cwd, "postbackd.db"));
  // By itself: through the store each of them would count those before it.
  connection.exec(`
    WITH RECURSIVE more (n) AS (VALUES (2) UNION ALL SELECT n + 1 FROM more WHERE n <= ${listedMax})
    INSERT INTO access_requests (id, email, created_at) SELECT 'id-' || n, 'a@b.example', 0 FROM more`);
  connection.close();

  const document = await access(t, cwd, "list");
  const { stdout } = await runAdmin(t, cwd, "access list");

  assert.equal(document.has_more, true);
  assert.equal(document.requests.length, listedMax);
  assert.equal(document.requests.at(-1)?.request_id, `id-${listedMax}`);
  assert.match(stdout, /\n\nThere are more; only the oldest 20000 are shown\.\n$/);
});

for (const [name, example] of [
  ["list", "list --all"],
  ["approve", `approve ${UNKNOWN} --login alice`],
  ["deny", `deny ${UNKNOWN}`],
] as const) {
  test(`explains access ${name} with an example`, async (t) => {
    const { code, stdout } = await runProgram(t, ["admin", "access", name, "--help"]);

    assert.equal(code, 0);
    assert.ok(stdout.endsWith(`EXAMPLE\n\n  postbackd admin access ${example}\n`));
  });
}
