import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { request } from "node:http";
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
  type Body,
  type KeyShown,
} from "./client.ts";
import { PART, type Served, type Subject } from "./subject.ts";

const ACCEPTED = [200, 20000] as const;
const FAILED = [401, 40100] as const;
const REVOKED = [401, 40101] as const;
const DISABLED = [401, 40102] as const;

const CHALLENGES = 'Basic realm="postbackd", charset="UTF-8", Bearer realm="postbackd"';

/** Contract §2. */
export function exerciseAuthentication(subject: Subject): void {
  test("contract §2, authentication", PART, async (t) => {
    const served = await subject.serve(t, { toml: "" });
    const service = new Client(served.url);
    await schemes(t, { served, service });
    await verdicts(t, { served, service });
    await keys(t, { served, service });
    await withoutKey(t, { served, service });
  });
}

interface Parts {
  readonly served: Served;
  readonly service: Client;
}

async function schemes(t: TestContext, { served, service }: Parts): Promise<void> {
  const { login, key } = served.account;

  await t.test("Authorization: Basic and Bearer both name the account", async () => {
    for (const authorization of [basic(login, key), bearer(key)]) {
      const { status, body } = await service.as(authorization).send("/v1/appendix/user_data");
      assert.deepEqual([status, body.login], [200, login], authorization.split(" ")[0]);
    }
  });

  await t.test("strict parse: the scheme's case does not matter", async () => {
    const token = basic(login, key).slice("Basic ".length);
    for (const given of [`basic ${token}`, `BASIC ${token}`, `bearer ${key}`, `bEARER ${key}`]) {
      assert.deepEqual(await service.as(given).verdict(), ACCEPTED, given.split(" ")[0]);
    }
  });

  await t.test("strict parse: anything but one well-formed header is 40100", async () => {
    const token = Buffer.from(`${login}:${key}`).toString("base64");
    const malformed: readonly (readonly string[])[] = [
      [],
      [bearer(key), bearer(key)],
      [basic(login, key), bearer(key)],
      [""],
      ["Basic"],
      ["Bearer"],
      [key],
      [`Digest ${token}`],
      [`Basic ${token.slice(0, 12)} ${token.slice(12)}`],
      [`Basic ${token}*`],
      [`Basic ${Buffer.from(`${login}${key}`).toString("base64")}`],
      [`Basic ${Buffer.from(`${login}:${key}:`).toString("base64")}`],
      [`Basic ${Buffer.from(`:${login}:${key}`).toString("base64")}`],
      [`Basic ${Buffer.concat([Buffer.from([0xff]), Buffer.from(`:${key}`)]).toString("base64")}`],
      [bearer(`${key} ${key}`)],
      [bearer(`"${key}"`)],
    ];
    for (const values of malformed) {
      assert.deepEqual(await rawVerdict(served.url, values), FAILED, JSON.stringify(values));
    }
  });

  await t.test("login: compared exactly", async () => {
    for (const wrong of [login.toUpperCase(), `${login} `, login.slice(1), ""]) {
      assert.deepEqual(await service.as(basic(wrong, key)).verdict(), FAILED, wrong);
    }
  });
}

async function verdicts(t: TestContext, { served, service }: Parts): Promise<void> {
  await t.test("order of verdicts: unknown 40100, revoked 40101, disabled 40102", async () => {
    const { key, revoked } = await accountWithRevokedKey(served, "verdicts");
    const unknown = `pbd_live_${"0".repeat(34)}${keyChecksum("0".repeat(34))}`;

    assert.deepEqual(await service.as(bearer(unknown)).verdict(), FAILED);
    assert.deepEqual(await service.as(basic("verdicts", key.key)).verdict(), ACCEPTED);
    assert.deepEqual(await service.as(bearer(revoked.key)).verdict(), REVOKED);
    assert.deepEqual(await service.as(basic("other", revoked.key)).verdict(), FAILED);
    await admin(served, ["account", "disable", "verdicts"]);
    assert.deepEqual(await service.as(bearer(key.key)).verdict(), DISABLED);
    assert.deepEqual(await service.as(bearer(revoked.key)).verdict(), REVOKED);
    assert.deepEqual(await service.as(basic("other", key.key)).verdict(), FAILED);
  });

  await t.test("a 401 carries WWW-Authenticate, with invalid_token for a refused key", async () => {
    const wellFormed = `pbd_live_${"1".repeat(34)}${keyChecksum("1".repeat(34))}`;
    const challenges = async (authorization: string | null): Promise<string | null> => {
      const { status, headers } = await service.as(authorization).send("/v1/tasks");
      assert.equal(status, 401);
      return headers.get("www-authenticate");
    };

    assert.equal(await challenges(null), CHALLENGES);
    assert.equal(await challenges(basic(served.account.login, wellFormed)), CHALLENGES);
    assert.equal(await challenges(bearer(wellFormed)), `${CHALLENGES}, error="invalid_token"`);
  });

  await t.test("a revocation by the CLI takes effect on the very next request", async () => {
    const { key } = await createAccount(served, "revoked-soon");
    const client = service.as(bearer(key.key));

    assert.deepEqual(await client.verdict(), ACCEPTED);
    await admin(served, ["key", "revoke", key.key_id]);
    assert.deepEqual(await client.verdict(), REVOKED);
  });

  await t.test("a disabling by the CLI takes effect on the very next request", async () => {
    const { key } = await createAccount(served, "disabled-soon");
    const client = service.as(bearer(key.key));

    assert.deepEqual(await client.verdict(), ACCEPTED);
    await admin(served, ["account", "disable", "disabled-soon"]);
    assert.deepEqual(await client.verdict(), DISABLED);
    await admin(served, ["account", "enable", "disabled-soon"]);
    assert.deepEqual(await client.verdict(), ACCEPTED);
  });
}

async function keys(t: TestContext, { served, service }: Parts): Promise<void> {
  const { login, key } = served.account;
  const client = service.as(bearer(key));

  await t.test("keys: prefix, 34 random characters and their CRC-32 in base62", async () => {
    const made = await Promise.all([client, client].map((each) => create(each)));
    for (const text of [key, ...made.map(({ key: whole }) => whole)]) {
      assert.match(text, KEY);
      assert.equal(text.slice(-6), keyChecksum(text.slice("pbd_live_".length, -6)));
    }
  });

  await t.test("keys: key_id is key_ and the hex of a UUIDv7", async () => {
    assert.match((await create(client)).key_id, KEY_ID);
  });

  await t.test("keys: stored as SHA-256 only, in no file as they are", async (t) => {
    const { file } = served;
    if (file === null) {
      t.skip("the server's files are its own");
      return;
    }
    const { key: made } = await create(client);
    assert.deepEqual(await service.as(bearer(made)).verdict(), ACCEPTED);
    for (const text of [key, made]) assert.deepEqual(filesWith(file, text), []);
    // The search does find what is stored as it is.
    assert.notDeepEqual(filesWith(file, served.account.secret), []);
  });

  await t.test("keys: shown whole once; listings show prefix and last four", async () => {
    const made = await create(client);
    const user = await client.send("/v1/appendix/user_data");
    const listed = await served.cli(["admin", "key", "list", login, "--json"]);

    for (const text of [user.text, listed.stdout]) assert.ok(!text.includes(made.key));
    for (const { keys: shown } of [user.body, parse(listed.stdout)]) {
      const found = shown.find(({ key_id }) => key_id === made.key_id);
      assert.deepEqual([found?.prefix, found?.last_four], ["pbd_live_", made.key.slice(-4)]);
    }
  });

  await t.test("keys: at most 20 are active, the first one included", async () => {
    const owner = await createAccount(served, "collector");
    const collector = service.as(bearer(owner.key.key));
    const made = await Promise.all(Array.from({ length: 19 }, () => create(collector)));
    const refused = await collector.send("/v1/appendix/keys", { method: "POST" });
    const byCli = await served.cli(["admin", "key", "create", "collector"]);

    assert.deepEqual([refused.status, refused.body.status_code], [409, 40910]);
    assert.equal(refused.body.status_message, "Active Key Limit Reached.");
    assert.equal(byCli.code, 1, byCli.stderr);
    await collector.send(`/v1/appendix/keys/${made[0]?.key_id}`, { method: "DELETE" });
    assert.match((await create(collector)).key, KEY);
  });

  await t.test("login: 1 to 64 of A-Za-z0-9._@+-", async () => {
    for (const good of ["a", `${"x".repeat(58)}.@+-_9`]) {
      assert.equal((await served.cli(["admin", "account", "create", good])).code, 0, good);
    }
    for (const bad of ["", "x".repeat(65), "a:b"]) {
      assert.equal((await served.cli(["admin", "account", "create", bad])).code, 2, bad);
    }
  });
}

async function withoutKey(t: TestContext, { service }: Parts): Promise<void> {
  const open = [
    "/v1/appendix/marketplaces",
    "/v1/appendix/status",
    "/v1/appendix/status_codes",
    "/livez",
    "/readyz",
    "/openapi.json",
  ];

  await t.test("needs no key: the public operations, whatever Authorization says", async () => {
    for (const authorization of [null, "nonsense", bearer("pbd_live_x")]) {
      const client = service.as(authorization);
      for (const path of open) assert.equal((await client.send(path)).status, 200, path);
      const body = { email: "ada@example.com" };
      assert.equal((await client.send("/v1/access_requests", { body })).status, 200);
    }
  });

  await t.test("needs a key: everything else", async () => {
    const paths: readonly (readonly [string, string])[] = [
      ["POST", "/v1/tasks/task_post"],
      ["GET", "/v1/tasks/task_get/00000000-0000-7000-8000-000000000000"],
      ["GET", "/v1/tasks/tasks_ready"],
      ["GET", "/v1/tasks"],
      ["POST", "/v1/tasks/task_cancel/00000000-0000-7000-8000-000000000000"],
      ["POST", "/v1/appendix/keys"],
      ["DELETE", "/v1/appendix/keys/key_00000000000070008000000000000000"],
      ["GET", "/v1/appendix/user_data"],
    ];
    for (const [method, path] of paths) {
      const { status, body } = await service.send(path, { method });
      assert.deepEqual([status, body.status_code], FAILED, path);
      assert.equal(body.status_message, "Authentication failed.");
    }
  });
}

/** What a request with these `Authorization` headers, one line each, is told. */
async function rawVerdict(url: string, values: readonly string[]): Promise<[number, number]> {
  const { host } = new URL(url);
  const lines = values.flatMap((value) => ["Authorization", value]);
  const sent = request(`${url}/v1/appendix/user_data`, { headers: ["Host", host, ...lines] });
  sent.end();
  const [response] = await once(sent, "response");
  let text = "";
  for await (const part of response.setEncoding("utf8")) text += part;
  return [response.statusCode, parse(text).status_code];
}

/** Files beside the database, itself included, that hold the text. */
function filesWith(file: string, text: string): readonly string[] {
  const folder = dirname(file);
  const names = readdirSync(folder).filter((name) => name.startsWith(basename(file)));
  // By another process: where the daemon is in this one, closing the file here would drop SQLite's locks.
  const found = spawnSync("grep", ["-lF", "--", text, ...names.map((name) => join(folder, name))]);
  assert.ok(found.status === 0 || found.status === 1, String(found.stderr));
  return String(found.stdout)
    .split("\n")
    .filter((line) => line !== "");
}

interface WholeKey extends KeyShown {
  readonly key: string;
}

async function create(client: Client): Promise<WholeKey> {
  const { status, body, text } = await client.send("/v1/appendix/keys", { method: "POST" });
  assert.equal(status, 200, text);
  return whole(body.key);
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

async function accountWithRevokedKey(served: Served, login: string) {
  const { key } = await createAccount(served, login);
  const revoked = whole((await admin(served, ["key", "create", login])).key);
  await admin(served, ["key", "revoke", revoked.key_id]);
  return { key, revoked };
}

/** Runs an admin command that succeeds; gives its one JSON document. */
export async function admin(served: Served, words: readonly string[]): Promise<Body> {
  const { code, stdout, stderr } = await served.cli(["admin", ...words, "--json"]);
  assert.equal(code, 0, stderr);
  return parse(stdout);
}

function parse(text: string): Body {
  // Each test compares the fields it reads.
  return JSON.parse(text) as Body;
}
