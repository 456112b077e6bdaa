import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { newKey, newWorkerToken } from "../../src/domain/account/key.ts";
import type { Store } from "../../src/store/store.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { createTestAccount, openBeside, startTestDaemon } from "../helpers/daemon.ts";
import { type RawRequest, type RawResponse, headerLines, openRaw } from "../helpers/raw-http.ts";
import { JSON_TYPE, TASKS_READY, ask, askOn, codeOf, complaints } from "./answer.ts";
import { startRing } from "./ring.ts";
import { WORKER_OPERATIONS, askAsWorker, createTestWorker, workerPost } from "./worker-requests.ts";

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

const TYPES = '[types.echo]\nrunner = "echo"\n[types.print]\nrunner = "worker"\n';
const CLAIM = { types: ["print"] };
const BEAT = { leases: [] };

async function startWorkers(t: TestContext, limits = "failed_authentications_per_minute = 0") {
  const daemon = await startTestDaemon(t, { toml: `[limits]\n${limits}\n${TYPES}` });
  const token = await createTestWorker(daemon.file, ["print"]);
  return { ...daemon, token };
}

/** A claim with these lines for its credentials. */
function claimWith(lines: readonly string[]): RawRequest {
  const claim = workerPost({ token: "" }, { operation: "claim", body: CLAIM });
  return { ...claim, headers: [...lines, JSON_TYPE] };
}

test("a worker's token is taken as Bearer in any case, and no limit of accounts applies to it", async (t) => {
  const { url, token } = await startWorkers(t, "requests_per_minute = 1");
  for (const scheme of ["Bearer", "bearer", "bEARER"]) {
    const request = claimWith([`Authorization: ${scheme} ${token}`]);
    const { code, response } = await ask(url, request);
    assert.equal(code, 20000, scheme);
    assert.deepEqual(headerLines(response, "ratelimit"), []);
  }
});

test("a malformed Authorization gets the plain Bearer challenge, and an unknown token invalid_token", async (t) => {
  const { url, token, account } = await startWorkers(t);
  const basic = Buffer.from(`press:${token}`).toString("base64");
  const line = `Authorization: Bearer ${token}`;
  const malformed = [
    [[], [line, line], [line, `Authorization: Bearer ${account.key}`], [`Proxy-${line}`]],
    [[`${line} ${token}`], [`${line}, Bearer ${token}`], [`${line}\xff`]],
    [[`Authorization: ${token}`], [`Authorization: Basic ${basic}`], [`X-Api-Key: ${token}`]],
  ].flat();
  const unknown = [
    [account.key, newWorkerToken().key, token.slice(0, -1), `${token}x`, token.toUpperCase(), "x"],
    [token.replace("pbd_work_", "pbd_live_"), token.slice("pbd_work_".length), `"${token}"`],
  ].flat();
  for (const [shapes, challenge] of [
    [malformed, BEARER_CHALLENGE],
    [unknown.map((value) => [`Authorization: Bearer ${value}`]), INVALID_TOKEN],
  ] as const) {
    for (const lines of shapes) {
      const { response, body } = await ask(url, claimWith(lines));
      assert.deepEqual(headerLines(response, "www-authenticate"), [challenge], lines.join());
      assert.deepEqual(body, { status_code: 40100, status_message: "Authentication failed." });
    }
  }
});

clusterTest("a token revoked by another process is 40101 at the next request", async (t) => {
  const daemon = await startWorkers(t);
  const store = await openBeside(t, daemon);
  const connection = await openRaw(t, daemon.url);
  const request = (operation: (typeof WORKER_OPERATIONS)[number]) =>
    workerPost(daemon, { operation, body: BEAT });
  assert.equal((await askOn(connection, request("heartbeat"))).code, 20000);
  await store.revokeWorker({ name: "press", revokedAt: Date.now() });

  for (const operation of WORKER_OPERATIONS) {
    const { code, response } = await askOn(connection, request(operation));
    assert.equal(code, 40101, operation);
    assert.deepEqual(headerLines(response, "www-authenticate"), [INVALID_TOKEN]);
  }
  const again = await createTestWorker(daemon.file, ["print"]);
  assert.equal((await askAsWorker({ ...daemon, token: again }, "claim", CLAIM)).code, 20000);
  assert.deepEqual(complaints(daemon), []);
});

test("unknown tokens count for the address, which does not delay valid and revoked tokens", async (t) => {
  const daemon = await startWorkers(t, "failed_authentications_per_minute = 3");
  const other = { ...daemon, token: newWorkerToken().key };
  const gone = { ...daemon, token: await createTestWorker(daemon.file, ["print"], "gone") };
  const store = await openBeside(t, daemon);
  await store.revokeWorker({ name: "gone", revokedAt: Date.now() });
  for (const code of [40100, 40100, 40100, 42900, 42900]) {
    assert.equal((await askAsWorker(other, "claim", CLAIM)).code, code);
  }
  for (let i = 0; i < 5; i++) {
    assert.equal((await askAsWorker(daemon, "heartbeat", BEAT)).code, 20000);
    assert.equal((await askAsWorker(gone, "heartbeat", BEAT)).code, 40101);
  }
  const wrongKey = { target: TASKS_READY, headers: ["Authorization: Bearer x"] };
  assert.equal(await codeOf(daemon.url, wrongKey), 42900);
});

test("a token with a wrong checksum costs no read of the store, and any other token one read", async (t) => {
  const hashes: string[] = [];
  const ring = await startRing(t, {
    store: {
      async findWorkerHolder(hash) {
        hashes.push(hash);
        return null;
      },
    },
  });
  const last = ring.token.endsWith("0") ? "1" : "0";
  const mistyped = { ...ring, token: ring.token.slice(0, -1) + last };
  assert.equal((await askAsWorker(mistyped, "claim", CLAIM)).code, 40100);
  assert.deepEqual(hashes, []);
  for (let i = 0; i < 3; i++) await askAsWorker(ring, "claim", CLAIM);
  assert.equal(hashes.length, 3);
  assert.match([...new Set(hashes)].join(), /^[0-9a-f]{64}$/);
});

test("a stop writes when a worker was last seen, and not for refused tokens", async (t) => {
  const daemon = await startWorkers(t);
  await createTestWorker(daemon.file, ["print"], "silent");
  const before = Date.now();
  assert.equal((await askAsWorker(daemon, "heartbeat", BEAT)).code, 20000);
  await askAsWorker({ ...daemon, token: newWorkerToken().key }, "heartbeat", BEAT);
  await daemon.daemon.stop();

  const store = await openBeside(t, daemon);
  const [press, silent, ...others] = await store.listWorkers();
  assert.ok(press?.name === "press" && Number(press.lastSeenAt) >= before);
  assert.deepEqual([silent?.name, silent?.lastSeenAt, others], ["silent", null, []]);
});
