import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test, type TestContext } from "node:test";

import {
  basic,
  bearer,
  Client,
  KEY,
  KEY_ID,
  keyChecksum,
  SECRET,
  UUID_V7,
  type Body,
  type KeyShown,
} from "./client.ts";
import { PART, TOML, type Served, type Subject } from "./subject.ts";

const ACCEPTED = [200, 20000] as const;
const REVOKED = [401, 40101] as const;
const DISABLED = [401, 40102] as const;

const KEY_FIELDS = ["key_id", "prefix", "last_four", "label", "created_at"];

/** The operations of http-api.md on accounts. */
export function exerciseAccounts(subject: Subject): void {
  test("accounts, as in http-api.md", PART, async (t) => {
    const served = await subject.serve(t, { toml: TOML });
    const parts = { served, client: new Client(served.url, bearer(served.account.key)) };
    await credentials(t, parts);
    await keys(t, parts);
    await reference(t, parts);
    await accessRequests(t, parts);
  });
}

interface Parts {
  readonly served: Served;
  readonly client: Client;
}

async function credentials(t: TestContext, { served, client }: Parts): Promise<void> {
  const { login, key } = served.account;

  await t.test("Basic and Bearer both name the account", async () => {
    for (const authorization of [basic(login, key), bearer(key)]) {
      const { body } = await client.as(authorization).send("/v1/appendix/user_data");
      assert.equal(body.login, login);
    }
  });

  await t.test("the CLI revokes a key and disables an account from the next request", async () => {
    const { key: own } = await createAccount(served, "verdicts");
    const second = whole((await admin(served, ["key", "create", "verdicts"])).key);
    const verdicts = () =>
      Promise.all([own, second].map((each) => client.as(bearer(each.key)).verdict()));

    assert.deepEqual(await verdicts(), [ACCEPTED, ACCEPTED]);
    await admin(served, ["key", "revoke", second.key_id]);
    assert.deepEqual(await verdicts(), [ACCEPTED, REVOKED]);
    await admin(served, ["account", "disable", "verdicts"]);
    assert.deepEqual(await verdicts(), [DISABLED, REVOKED]);
    await admin(served, ["account", "enable", "verdicts"]);
    assert.deepEqual(await verdicts(), [ACCEPTED, REVOKED]);
  });
}

async function keys(t: TestContext, { served, client }: Parts): Promise<void> {
  const { key: first, secret } = served.account;
  const path = "/v1/appendix/keys";
  const made = whole((await client.send(path, { body: { label: "ci" } })).body.key);

  await t.test("a key is a prefix, 34 characters and their CRC-32 in base62", () => {
    for (const text of [first, made.key]) {
      assert.match(text, KEY);
      assert.equal(text.slice(-6), keyChecksum(text.slice("pbd_live_".length, -6)));
    }
    assert.match(made.key_id, KEY_ID);
    assert.deepEqual(Object.keys(made).toSorted(), [...KEY_FIELDS, "key"].toSorted());
  });

  await t.test("a key is stored as a hash, in no file as it is", () => {
    for (const text of [first, made.key]) assert.deepEqual(filesWith(served.file, text), []);
    // The search finds a text that is stored as it is.
    assert.notDeepEqual(filesWith(served.file, secret), []);
  });
}

async function reference(t: TestContext, { client }: Parts): Promise<void> {
  await t.test("public operations answer without a key, and with an ETag", async () => {
    const stranger = client.as(null);
    const read = async (name: string): Promise<Record<string, unknown>> =>
      Object((await stranger.send(name)).body);
    for (const name of ["marketplaces", "status", "status_codes"]) {
      const path = `/v1/appendix/${name}`;
      const etag = (await stranger.send(path)).headers.get("etag") ?? "";
      const again = await stranger.send(path, { headers: { "if-none-match": etag } });
      assert.deepEqual([again.status, again.text], [304, ""], name);
    }
    assert.deepEqual((await read("/v1/appendix/marketplaces"))["marketplaces"], [
      { code: "de", name: "Germany", currency: "EUR" },
    ]);
    assert.match(String((await read("/openapi.json"))["openapi"]), /^3\.1\./);
    for (const path of ["/livez", "/readyz"]) {
      assert.equal((await stranger.send(path)).status, 200);
    }
  });
}

async function accessRequests(t: TestContext, { served, client }: Parts): Promise<void> {
  const request = async (email: string): Promise<string> => {
    const body = { email, name: "Ada", message: "Hello.\nBye" };
    const answer = await client.as(null).send("/v1/access_requests", { body });
    assert.deepEqual([answer.status, answer.body.status_code], ACCEPTED);
    assert.match(answer.body.request_id, UUID_V7);
    return answer.body.request_id;
  };

  await t.test("the CLI lists access requests, approves one and denies another", async () => {
    const [ada, eve] = [await request("ada@example.com"), await request("eve@example.com")];
    const listed = await served.cli(["admin", "access", "list"]);
    for (const text of [ada, eve, "ada@example.com"]) assert.ok(listed.stdout.includes(text));
    const { key } = await admin(served, ["access", "approve", ada, "--login", "ada"]);
    await admin(served, ["access", "deny", eve]);

    assert.deepEqual(await client.as(bearer(key.key ?? "")).verdict(), ACCEPTED);
    for (const id of [ada, eve]) {
      const again = await served.cli(["admin", "access", "approve", id, "--login", "eve"]);
      assert.deepEqual([again.code, again.stdout], [1, ""]);
    }
  });
}

/** Files next to the database, and the database, that hold the text. */
function filesWith(file: string, text: string): readonly string[] {
  const folder = dirname(file);
  const names = readdirSync(folder).filter((name) => name.startsWith(basename(file)));
  // By another process: if the daemon is in this one, closing the file here would drop SQLite's locks.
  const found = spawnSync("grep", ["-lF", "--", text, ...names.map((name) => join(folder, name))]);
  assert.ok(found.status === 0 || found.status === 1, String(found.stderr));
  return String(found.stdout)
    .split("\n")
    .filter((line) => line !== "");
}

interface WholeKey extends KeyShown {
  readonly key: string;
}

function whole(key: KeyShown): WholeKey {
  assert.ok(key.key !== undefined);
  return { ...key, key: key.key };
}

/** Makes an account with the program's own command. */
export async function createAccount(
  served: Served,
  login: string,
): Promise<{ readonly key: WholeKey; readonly secret: string }> {
  const { key, webhook_secret: secret } = await admin(served, ["account", "create", login]);
  assert.match(secret, SECRET);
  return { key: whole(key), secret };
}

/** Runs an admin command that succeeds, and returns its JSON document. */
export async function admin(served: Served, words: readonly string[]): Promise<Body> {
  const { code, stdout, stderr } = await served.cli(["admin", ...words, "--json"]);
  assert.equal(code, 0, stderr);
  // Each test compares the fields it reads.
  return JSON.parse(stdout) as Body;
}
