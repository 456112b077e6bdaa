import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { newKey } from "../../src/domain/account/key.ts";
import { createTestAccount, openBeside, startTestDaemon } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { headerOf, openRaw, toChunks } from "../helpers/raw-http.ts";
import { KEYS, makeKey, revokeKeysOf, USER_DATA } from "./account.ts";
import {
  ask,
  askOn,
  bearer,
  JSON_TYPE,
  posting,
  TASK_POST,
  taskGet,
  TASKS_READY,
} from "./answer.ts";
import type { Answer } from "./answer.ts";
import { pagePost, SESSION } from "./session-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

async function startAt9(t: TestContext, toml = "") {
  const clock = createFakeClock({ now: NOW });
  return { clock, daemon: await startTestDaemon(t, { clock, toml }) };
}

const THREE = "[limits]\nrequests_per_minute = 3\n";

/** RateLimit-Policy, RateLimit and Retry-After. */
function limitHeaders({ response }: Answer): readonly (string | null)[] {
  return ["ratelimit-policy", "ratelimit", "retry-after"].map((name) => headerOf(response, name));
}

function withKey(key: string, more: readonly string[] = []) {
  return { target: TASKS_READY, headers: [`Authorization: Bearer ${key}`, ...more] };
}

test("every answer to an account says what its limit is and what is left of it", async (t) => {
  const { daemon, clock } = await startAt9(t, "[limits]\nrequests_per_minute = 10\n");
  const headers = [bearer(daemon)];
  const requests = [
    [200, { target: TASKS_READY, headers }],
    [200, { method: "HEAD", target: USER_DATA, headers }],
    [404, { target: taskGet("unknown"), headers }],
    [400, { target: `${TASKS_READY}?limit=0`, headers }],
    [415, { method: "POST", target: TASK_POST, headers, body: "{}" }],
    [200, { method: "POST", target: KEYS, headers }],
    [200, posting(daemon, '{"typo":1}')],
  ] as const;
  let left = 10;
  for (const [status, request] of requests) {
    const answer = await ask(daemon.url, request);
    left--;
    assert.equal(answer.response.status, status, JSON.stringify(request));
    const expected = ['"requests";q=10;w=60', `"requests";r=${left};t=60`, null];
    assert.deepEqual(limitHeaders(answer), expected);
  }
  clock.advance(20_500);
  const later = await ask(daemon.url, { target: TASKS_READY, headers });
  assert.equal(limitHeaders(later)[1], `"requests";r=${left - 1};t=40`);
});

test("a request too many is 42900 with the time to wait, and when that is over it is served", async (t) => {
  const { daemon, clock } = await startAt9(t, THREE);
  const { key } = daemon.account;
  for (let i = 0; i < 3; i++) assert.equal((await ask(daemon.url, withKey(key))).code, 20000);
  clock.advance(10_001);

  const refused = await ask(daemon.url, withKey(key));
  assert.equal(refused.code, 42900);
  assert.equal(refused.response.status, 429);
  assert.deepEqual(limitHeaders(refused), ['"requests";q=3;w=60', '"requests";r=0;t=50', "50"]);
  assert.match(refused.body.errors?.[0]?.detail ?? "", /3 requests a minute/);
  assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 42900);

  clock.advance(49_998);
  assert.equal((await ask(daemon.url, withKey(key))).code, 42900, "asking does not make it longer");
  clock.advance(1);
  assert.equal((await ask(daemon.url, withKey(key))).code, 20000);
});

test("the limit is the account's: all its keys share one, and other accounts have theirs", async (t) => {
  const { daemon } = await startAt9(t, THREE);
  const other = await createTestAccount(daemon.file, "other");
  const { key } = await makeKey(daemon);
  assert.equal((await ask(daemon.url, withKey(key))).code, 20000);
  assert.equal((await ask(daemon.url, withKey(daemon.account.key))).code, 20000);

  assert.equal((await ask(daemon.url, withKey(key))).code, 42900);
  assert.equal((await ask(daemon.url, withKey(daemon.account.key))).code, 42900);
  assert.equal((await ask(daemon.url, withKey(other.key))).code, 20000);
});

test("a refused request leaves its connection in order, its unread body too", async (t) => {
  const { daemon, clock } = await startAt9(t, THREE);
  const connection = await openRaw(t, daemon.url);
  for (let i = 0; i < 3; i++) await askOn(connection, withKey(daemon.account.key));
  const body = `{"input":"GET /livez HTTP/1.1\\r\\n\\r\\n${"x".repeat(1000)}"}`;
  assert.equal((await askOn(connection, posting(daemon, body))).code, 42900);
  const chunked = [bearer(daemon), JSON_TYPE, "Transfer-Encoding: chunked"];
  const post = { method: "POST", target: TASK_POST, headers: chunked, body: toChunks(body, 100) };
  assert.equal((await askOn(connection, post)).code, 42900);

  clock.advance(60_000);
  assert.equal((await askOn(connection, withKey(daemon.account.key))).code, 20000);
});

test("public operations and refused credentials neither count nor tell of the limit", async (t) => {
  const { daemon } = await startAt9(t, THREE);
  for (const target of ["/livez", "/v1/appendix/status", "/v1/appendix/marketplaces"]) {
    for (let i = 0; i < 3; i++) {
      const answer = await ask(daemon.url, { target, headers: [bearer(daemon)] });
      assert.equal(answer.response.status, 200);
      assert.deepEqual(limitHeaders(answer), [null, null, null]);
    }
  }
  const unknown = await ask(daemon.url, withKey(newKey().key));
  assert.deepEqual(limitHeaders(unknown), [null, null, null]);
  const answer = await ask(daemon.url, withKey(daemon.account.key));
  assert.equal(limitHeaders(answer)[1], '"requests";r=2;t=60');
});

test("no limit is set unless the operator sets one, and then no header speaks of it", async (t) => {
  const { daemon } = await startAt9(t);
  const connection = await openRaw(t, daemon.url);
  for (let i = 0; i < 500; i++) {
    const answer = await askOn(connection, withKey(daemon.account.key));
    assert.equal(answer.code, 20000);
    assert.deepEqual(limitHeaders(answer), [null, null, null]);
  }
});

test("the 301st refused credential of an address in a minute is 42900, and valid keys pass all the while", async (t) => {
  const { daemon, clock } = await startAt9(t);
  const connection = await openRaw(t, daemon.url);
  const fine = withKey(daemon.account.key);
  for (let i = 0; i < 300; i++) {
    assert.equal((await askOn(connection, withKey(newKey().key))).code, 40100);
    assert.equal((await askOn(connection, fine)).code, 20000);
  }
  clock.advance(30_000);
  const refused = await askOn(connection, withKey(newKey().key));
  assert.equal(refused.code, 42900);
  assert.equal(headerOf(refused.response, "retry-after"), "30");
  assert.equal(headerOf(refused.response, "www-authenticate"), null);
  assert.equal((await askOn(connection, { target: TASKS_READY })).code, 42900);
  assert.equal((await askOn(connection, fine)).code, 20000);

  clock.advance(30_000);
  assert.equal((await askOn(connection, withKey(newKey().key))).code, 40100);
});

const TWO_FAILURES = "[limits]\nfailed_authentications_per_minute = 2\n";

test("a missing, malformed or unknown key and another login count as failed authentications", async (t) => {
  const { daemon, clock } = await startAt9(t, TWO_FAILURES);
  const basic = Buffer.from(`someone:${daemon.account.key}`).toString("base64");
  const refused = [
    [],
    ["Authorization: nonsense"],
    [`Authorization: Bearer ${newKey().key}`],
    [`Authorization: Basic ${basic}`],
  ];
  for (const headers of refused) {
    for (const expected of [40100, 40100, 42900]) {
      assert.equal((await ask(daemon.url, { target: TASKS_READY, headers })).code, expected);
    }
    clock.advance(60_000);
  }
});

/** An account whose key is revoked, and a disabled account. */
async function createRefused(t: TestContext, daemon: TestDaemon) {
  const beside = await openBeside(t, daemon);
  const revoked = await createTestAccount(daemon.file, "revoked");
  await revokeKeysOf(beside, "revoked", NOW);
  const disabled = await createTestAccount(daemon.file, "disabled");
  await beside.setAccountDisabled({ login: "disabled", disabledAt: NOW });
  return { revoked, disabled };
}

test("an address at its limit of failures still gets 40101 for a revoked key and 40102 for a disabled account", async (t) => {
  const { daemon } = await startAt9(t, TWO_FAILURES);
  const { revoked, disabled } = await createRefused(t, daemon);
  const codeOf = async (headers: readonly string[]) =>
    (await ask(daemon.url, { target: TASKS_READY, headers })).code;
  const signInCode = async (body: { readonly login: string; readonly key: string }) =>
    (await ask(daemon.url, pagePost(SESSION, body))).code;
  for (const expected of [40100, 40100, 42900]) assert.equal(await codeOf([]), expected);

  for (const [code, { login, key }] of [[40101, revoked] as const, [40102, disabled] as const]) {
    const basic = Buffer.from(`${login}:${key}`).toString("base64");
    for (let i = 0; i < 3; i++) {
      assert.equal(await codeOf([`Authorization: Bearer ${key}`]), code);
      assert.equal(await codeOf([`Authorization: Basic ${basic}`]), code);
      assert.equal(await signInCode({ login, key }), code);
    }
  }
  assert.equal((await ask(daemon.url, withKey(daemon.account.key))).code, 20000);
  assert.equal(await codeOf([]), 42900);
});

test("thousands of requests with a revoked key do not lock their address out, and are one line of the log", async (t) => {
  const { daemon, clock } = await startAt9(t, TWO_FAILURES);
  const { revoked } = await createRefused(t, daemon);
  const connection = await openRaw(t, daemon.url);
  for (let i = 0; i < 3000; i++) {
    assert.equal((await askOn(connection, withKey(revoked.key))).code, 40101);
  }

  assert.equal((await askOn(connection, withKey(newKey().key))).code, 40100);
  assert.equal((await askOn(connection, withKey(daemon.account.key))).code, 20000);
  clock.advance(60_000);
  const lines = daemon.logLines.filter((line) => line.includes("credentials were refused"));
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /"refused":3001\b/);
});

test("refused credentials of one address are not held against another, of IPv6 the /64 is one", async (t) => {
  const toml = `trusted_proxies = ["127.0.0.1/32"]\n${TWO_FAILURES}`;
  const { daemon } = await startAt9(t, toml);
  const { key } = newKey();
  const codeFrom = async (address: string, with_ = key) =>
    (await ask(daemon.url, withKey(with_, [`X-Forwarded-For: ${address}`]))).code;

  for (const expected of [40100, 40100, 42900]) {
    assert.equal(await codeFrom("203.0.113.7"), expected);
    assert.equal(await codeFrom(`2001:db8::${expected}`), expected);
  }
  assert.equal(await codeFrom("203.0.113.7", daemon.account.key), 20000);
  assert.equal(await codeFrom("203.0.113.8"), 40100);
  assert.equal(await codeFrom("2001:db8:0:1::1"), 40100);
});

test("where that limit is 0 every refusal is told as it is", async (t) => {
  const { daemon } = await startAt9(t, "[limits]\nfailed_authentications_per_minute = 0\n");
  const connection = await openRaw(t, daemon.url);
  for (let i = 0; i < 400; i++) {
    assert.equal((await askOn(connection, withKey(newKey().key))).code, 40100);
  }
});

test("the body's limit is the operator's, to the byte", async (t) => {
  const { daemon } = await startAt9(t, '[limits]\nbody = "2KiB"\n');
  const ofBytes = (bytes: number) => `{"input":"${"x".repeat(bytes - 12)}"}`;
  assert.equal((await ask(daemon.url, posting(daemon, ofBytes(2048)))).code, 20000);
  const large = await ask(daemon.url, posting(daemon, ofBytes(2049)));
  assert.equal(large.code, 41300);
  assert.match(large.body.errors?.[0]?.detail ?? "", /2048 bytes/);
});

test("how many tasks a task_post takes is the operator's", async (t) => {
  const { daemon } = await startAt9(t, "[limits]\ntasks_per_post = 2\n");
  assert.equal((await ask(daemon.url, posting(daemon, "[{},{}]"))).code, 20000);
  const many = await ask(daemon.url, posting(daemon, "[{},{},{}]"));
  assert.equal(many.code, 40006);
  assert.match(many.body.errors?.[0]?.detail ?? "", /At most 2 tasks .* 3/);
  assert.equal(await countOfTasks(daemon), 2);
});

async function countOfTasks(daemon: TestDaemon): Promise<number> {
  await daemon.daemon.idle();
  return (await daemon.ready("?limit=1000")).tasks_count;
}
