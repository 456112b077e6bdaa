import assert from "node:assert/strict";
import { test } from "node:test";

import { newKey } from "../../src/domain/account/key.ts";
import type { Store } from "../../src/store/store.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, openBeside, startTestDaemon } from "../helpers/daemon.ts";
import { headerLines, openRaw, type RawResponse } from "../helpers/raw-http.ts";
import { ask, askOn, complaints, JSON_TYPE, TASK_POST, TASKS_READY } from "./answer.ts";

const BASIC_CHALLENGE = 'Basic realm="postbackd", charset="UTF-8"';
const BEARER_CHALLENGE = 'Bearer realm="postbackd"';
const INVALID_TOKEN = `${BEARER_CHALLENGE}, error="invalid_token"`;

function base64(text: string | Uint8Array): string {
  return Buffer.from(text).toString("base64");
}

function basic(login: string, key: string): string {
  return `Authorization: Basic ${base64(`${login}:${key}`)}`;
}

async function revokeKeyOf(store: Store, login: string): Promise<void> {
  for (const { keyId } of (await store.listKeys(login)) ?? []) {
    await store.revokeKey({ keyId, accountId: null, revokedAt: Date.now() });
  }
}

function challenges(response: RawResponse): readonly string[] {
  return headerLines(response, "www-authenticate");
}

test("a malformed Authorization is 40100 with two challenges", async (t) => {
  const daemon = await startTestDaemon(t);
  const { login, key } = daemon.account;
  const good = base64(`${login}:${key}`);
  // test/domain/credentials.test.ts has all malformed values.
  const shapes: readonly (readonly string[])[] = [
    [],
    ["Authorization:"],
    [`Authorization: Bearer  ${key}`],
    [`Authorization: Bearer ${key}, Bearer ${key}`],
    [`Authorization: Bearer ${key}\xff`],
    [`Authorization: Token ${key}`],
    [`Authorization: Basic ${good}====`],
    [`Authorization: Basic ${base64(`${login}:${"k".repeat(800)}`)}`],
    [`Authorization: Bearer ${key}`, "aUTHORIZATION:"],
    [`Authorization: Basic ${good}`, `Authorization: Bearer ${key}`],
    [`Proxy-Authorization: Bearer ${key}`],
    [`X-Api-Key: ${key}`],
  ];
  for (const headers of shapes) {
    const { response, code, body } = await ask(daemon.url, { target: TASKS_READY, headers });
    assert.equal(code, 40100, JSON.stringify(headers));
    assert.deepEqual(challenges(response), [BASIC_CHALLENGE, BEARER_CHALLENGE], headers.join());
    assert.deepEqual(body, { status_code: 40100, status_message: "Authentication failed." });
  }
  const inQuery = await ask(daemon.url, { target: `${TASKS_READY}?access_token=${key}` });
  assert.equal(inQuery.code, 40100);
});

test("Basic credentials of another account or an unknown key are 40100 without invalid_token", async (t) => {
  const daemon = await startTestDaemon(t);
  const { login, key } = daemon.account;
  await createTestAccount(daemon.file, "other");
  const lines = [
    basic("other", key),
    basic(login.toUpperCase(), key),
    basic(`\ufeff${login}`, key),
    basic(login, `${key}\n`),
    basic(login, newKey().key),
    basic(key, login),
  ];
  for (const line of lines) {
    const { response, code } = await ask(daemon.url, { target: TASKS_READY, headers: [line] });
    assert.equal(code, 40100, Buffer.from(line.slice(21), "base64").toString());
    assert.deepEqual(challenges(response), [BASIC_CHALLENGE, BEARER_CHALLENGE]);
  }
});

test("a refused Bearer key is an invalid_token", async (t) => {
  const daemon = await startTestDaemon(t);
  const store = await openBeside(t, daemon);
  const revoked = await createTestAccount(daemon.file, "revoked");
  await revokeKeyOf(store, "revoked");
  const disabled = await createTestAccount(daemon.file, "disabled");
  await store.setAccountDisabled({ login: "disabled", disabledAt: Date.now() });
  const cases = [
    [40100, newKey().key],
    [40101, revoked.key],
    [40102, disabled.key],
  ] as const;

  for (const [code, key] of cases) {
    const headers = [`Authorization: Bearer ${key}`];
    const got = await ask(daemon.url, { target: TASKS_READY, headers });
    assert.equal(got.code, code);
    assert.deepEqual(challenges(got.response), [BASIC_CHALLENGE, INVALID_TOKEN]);
    // HEAD may join lines of the same name into one, which means the same (RFC 9110 §5.3).
    const head = await ask(daemon.url, { method: "HEAD", target: TASKS_READY, headers });
    assert.equal(head.response.status, 401);
    assert.equal(challenges(head.response).join(", "), `${BASIC_CHALLENGE}, ${INVALID_TOKEN}`);
  }
});

test("only a caller with login and key gets 40101 or 40102", async (t) => {
  const daemon = await startTestDaemon(t);
  const store = await openBeside(t, daemon);
  const revoked = await createTestAccount(daemon.file, "revoked");
  const disabled = await createTestAccount(daemon.file, "disabled");
  const both = await createTestAccount(daemon.file, "both");
  for (const login of ["revoked", "both"]) await revokeKeyOf(store, login);
  for (const login of ["disabled", "both"]) {
    await store.setAccountDisabled({ login, disabledAt: Date.now() });
  }
  const cases = [
    [40101, basic("revoked", revoked.key)],
    [40102, basic("disabled", disabled.key)],
    [40101, basic("both", both.key)],
    [40101, `Authorization: Bearer ${both.key}`],
    [40100, basic("tester", revoked.key)],
    [40100, basic("tester", disabled.key)],
    [40100, basic("revoked", daemon.account.key)],
  ] as const;

  for (const [code, line] of cases) {
    const got = await ask(daemon.url, { target: TASKS_READY, headers: [line] });
    assert.equal(got.code, code, line);
  }
});

clusterTest(
  "a key is refused from the next request after another process revokes it or disables its account",
  async (t) => {
    const daemon = await startTestDaemon(t);
    const store = await openBeside(t, daemon);
    const { login } = daemon.account;
    const codeNow = async () => (await daemon.call(TASKS_READY)).json() as Promise<unknown>;
    assert.partialDeepStrictEqual(await codeNow(), { status_code: 20000 });

    await store.setAccountDisabled({ login, disabledAt: Date.now() });
    assert.partialDeepStrictEqual(await codeNow(), { status_code: 40102 });
    await store.setAccountDisabled({ login, disabledAt: null });
    assert.partialDeepStrictEqual(await codeNow(), { status_code: 20000 });
    await revokeKeyOf(store, login);
    assert.partialDeepStrictEqual(await codeNow(), { status_code: 40101 });
  },
);

test("credentials of a refused request are neither repeated nor logged", async (t) => {
  const daemon = await startTestDaemon(t);
  const { key } = newKey();
  const secrets = [key, daemon.account.key, daemon.account.secret];
  const lines = [`Bearer ${key}`, `Basic ${base64(`tester:${key}`)}`, `Nonsense ${key}`];
  for (const line of lines) {
    const { response } = await ask(daemon.url, {
      target: `${TASKS_READY}?key=${key}`,
      headers: [`Authorization: ${line}`],
    });
    const shown = JSON.stringify(response.headers) + response.body.toString();
    for (const secret of secrets) assert.ok(!shown.includes(secret));
  }
  const log = daemon.logLines.join("");
  for (const secret of secrets) assert.ok(!log.includes(secret));
  assert.deepEqual(complaints(daemon), []);
});

test("a refused request with an unread body leaves its connection usable", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  const body = JSON.stringify({ input: "x".repeat(300_000) });
  for (let round = 0; round < 3; round++) {
    const refused = await askOn(connection, {
      ...{ method: "POST", target: TASK_POST, headers: [JSON_TYPE], body },
    });
    assert.equal(refused.code, 40100);
    const headers = [`Authorization: Bearer ${daemon.account.key}`];
    assert.equal((await askOn(connection, { target: TASKS_READY, headers })).code, 20000);
  }
});
