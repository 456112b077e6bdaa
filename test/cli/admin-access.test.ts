import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import type { TestContext } from "node:test";

import Database from "better-sqlite3";

import { PENDING_REQUESTS_MAX } from "../../src/domain/account/account.ts";
import { hashKey, isWellFormedKey } from "../../src/domain/account/key.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { NewAccessRequest, Store } from "../../src/store/store.ts";
import { temporaryFolder } from "../helpers/program.ts";
import { newAccessRequest } from "../helpers/store.ts";
import { columns, documentOf, runHere } from "./in-process.ts";

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const T0_TEXT = "2030-01-31T09:00:00.000Z";

function wordsOf(words: string): readonly string[] {
  return ["admin", "access", ...words.split(" ")];
}

function access(t: TestContext, cwd: string, words: string) {
  return documentOf(t, wordsOf(words), { cwd });
}

/** Opens the database of a folder for one step. */
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

/** Leaves an access request in a folder's database, and returns its id. */
async function seedRequest(cwd: string, given: Partial<NewAccessRequest> = {}): Promise<string> {
  const request = newAccessRequest(given);
  assert.equal(await withStore(cwd, (store) => store.insertAccessRequest(request)), "stored");
  return request.id;
}

test("a list shows hostile texts on one line each, without control characters", async (t) => {
  const cwd = temporaryFolder(t);
  const evil = "\u001b[2J\u009b31m\u202egnp.exe\u{e0041}\u0007";
  const fields = {
    ...{ email: "eve@example.org", name: `Eve\n${evil}`, company: `\r${evil}` },
    message: `line one\nline two ${evil}\u2028${"x".repeat(4000)}`,
  };
  await seedRequest(cwd, { fields });
  const emoji = { email: `${"e".repeat(60)}@b.example`, name: "😀".repeat(21), company: "c" };
  await seedRequest(cwd, { fields: { ...emoji, message: " a\t\n  b " } });

  const { stdout } = await runHere(t, wordsOf("list"), { cwd });
  const json = await runHere(t, wordsOf("list --json"), { cwd });

  const [, first = "", second = "", end] = stdout.split("\n");
  assert.match(first, /eve@example\.org +Eve \ufffd\[2J\ufffd31m\ufffdgnp\.exe/);
  assert.match(first, /  line one line two .{22}…$/u);
  // Texts are cut between whole characters.
  assert.ok(
    second.includes(`  ${emoji.email}  ${"😀".repeat(20)}…  c  `) && second.endsWith("  a b"),
  );
  assert.equal(end, "");
  for (const text of [stdout, json.stdout]) {
    assert.doesNotMatch(text, /(?!\n)[\p{Cc}\p{Cf}\u2028]/u);
  }
  const { email, name, company, message } = JSON.parse(json.stdout).requests[0];
  assert.deepEqual({ email, name, company, message }, fields);
});

test("list shows pending requests, oldest first, and with --all the decided ones", async (t) => {
  const cwd = temporaryFolder(t);
  const fields = { email: "ann@b.example", name: null, company: null, message: null };
  const first = await seedRequest(cwd, { fields });
  const second = await seedRequest(cwd);
  const third = await seedRequest(cwd);
  const approved = await access(t, cwd, `approve ${first} --login ann`);
  const denied = await access(t, cwd, `deny ${second}`);

  const pending = await access(t, cwd, "list");
  const { requests } = await access(t, cwd, "list --all");
  const { stdout } = await runHere(t, wordsOf("list --all"), { cwd });

  const undecided = { created_at: T0_TEXT, decision: null, decided_at: null, login: null };
  const eve = { email: "eve@example.org", name: "Eve", company: null, message: "Please." };
  assert.deepEqual(pending, {
    requests: [{ request_id: third, ...eve, ...undecided }],
    has_more: false,
  });
  const { decided_at } = denied;
  assert.match(decided_at, TIME);
  assert.deepEqual(denied, { request_id: second, decision: "denied", decided_at, login: null });
  assert.deepEqual(columns(requests, "request_id", "decision", "login", "decided_at"), [
    [first, "approved", "ann", approved.created_at],
    [second, "denied", null, decided_at],
    [third, null, null, null],
  ]);
  const [titles = "", ...rows] = stdout.trimEnd().split("\n");
  assert.deepEqual(titles.split(/ {2,}/).slice(-3), ["DECIDED AT", "DECISION", "MESSAGE"]);
  assert.deepEqual(
    rows.map((row) => row.split(/ {2,}/).slice(-2)),
    [
      ["approved as ann", "-"],
      ["denied", "Please."],
      ["-", "Please."],
    ],
  );
});

test("approve makes the account and shows its key and secret", async (t) => {
  const cwd = temporaryFolder(t);
  const id = await seedRequest(cwd);

  const approved = await access(t, cwd, `approve ${id} --login alice`);

  const { key, webhook_secret: secret, created_at: createdAt, ...rest } = approved;
  assert.deepEqual(rest, { request_id: id, login: "alice", disabled_at: null });
  assert.match(createdAt, TIME);
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  assert.ok(isWellFormedKey(key.key));
  const holder = await withStore(cwd, (store) => store.findKeyHolder(hashKey(key.key)));
  assert.deepEqual([holder?.login, holder?.keyId], ["alice", key.key_id]);
  const secrets = await withStore(cwd, (store) => store.findSecrets("alice"));
  assert.equal(secrets?.webhookSecret, secret);
});

test("deny --all denies requests of an age and records the user", async (t) => {
  const cwd = temporaryFolder(t);
  const old = await seedRequest(cwd, { createdAt: Date.now() - 7_200_000 });
  const fresh = await seedRequest(cwd, { createdAt: Date.now() });

  assert.deepEqual(await access(t, cwd, "deny --all --older-than 1h"), { denied: 1 });
  const { requests } = await access(t, cwd, "list --all");
  assert.deepEqual(columns(requests, "request_id", "decision"), [
    [old, "denied"],
    [fresh, null],
  ]);
  const query = { since: null, action: "access.denied", limit: 9, before: null } as const;
  const entries = await withStore(cwd, (store) => store.listAudit(query));
  assert.deepEqual(
    columns(
      entries.map(({ actor }) => actor),
      "kind",
    ),
    [["user"]],
  );
});

test("approve and deny refuse a decided request and a taken login", async (t) => {
  const cwd = temporaryFolder(t);
  const [approved, denied] = [await seedRequest(cwd), await seedRequest(cwd)];
  const pending = await seedRequest(cwd);
  await access(t, cwd, `approve ${approved} --login alice`);
  await access(t, cwd, `deny ${denied}`);
  const before = await access(t, cwd, "list --all");

  for (const [words, reason] of [
    ...[approved, denied].flatMap((id) => [
      [`approve ${id} --login bob`, /already decided/] as const,
      [`deny ${id}`, /already decided/] as const,
    ]),
    [`approve ${pending} --login alice`, /login alice exists/] as const,
  ]) {
    const { code, stderr } = await runHere(t, wordsOf(words), { cwd });
    assert.equal(code, 1, words);
    assert.match(stderr, reason);
  }

  assert.deepEqual(await access(t, cwd, "list --all"), before);
  assert.equal((await withStore(cwd, (store) => store.listAccounts())).length, 1);
});

test("a list that is cut says so", async (t) => {
  const cwd = temporaryFolder(t);
  const listedMax = 2 * PENDING_REQUESTS_MAX;
  await seedRequest(cwd);
  const connection = new Database(join(cwd, "postbackd.db"));
  // Through the store each of them would count those before it.
  connection.exec(`
    WITH RECURSIVE more (n) AS (VALUES (2) UNION ALL SELECT n + 1 FROM more WHERE n <= ${listedMax})
    INSERT INTO access_requests (id, email, created_at) SELECT 'id-' || n, 'a@b.example', 0 FROM more`);
  connection.close();

  const document = await access(t, cwd, "list");
  const { stdout } = await runHere(t, wordsOf("list"), { cwd });

  assert.deepEqual([document.has_more, document.requests.length], [true, listedMax]);
  assert.equal(document.requests.at(-1)?.request_id, `id-${listedMax}`);
  assert.match(stdout, /\n\nMore exist.*20000/);
});
