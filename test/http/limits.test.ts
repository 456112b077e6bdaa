import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { newKey } from "../../src/domain/account/key.ts";
import { createTestAccount, openBeside } from "../helpers/daemon.ts";
import type { TestDaemon } from "../helpers/daemon.ts";
import { headerOf, openRaw } from "../helpers/raw-http.ts";
import { KEYS, makeKey, revokeKeysOf, USER_DATA } from "./account.ts";
import { ask, askOn, bearer, posting, TASK_POST, taskGet, TASKS_READY } from "./answer.ts";
import type { Answer } from "./answer.ts";
import { NOW, startAt9 } from "./at-nine.ts";
import { pagePost, SESSION } from "./session-requests.ts";

const THREE = "[limits]\nrequests_per_minute = 3\n";

/** RateLimit-Policy, RateLimit and Retry-After. */
function limitHeaders({ response }: Answer): readonly (string | null)[] {
  return ["ratelimit-policy", "ratelimit", "retry-after"].map((name) => headerOf(response, name));
}

function withKey(key: string, more: readonly string[] = []) {
  return { target: TASKS_READY, headers: [`Authorization: Bearer ${key}`, ...more] };
}

test("each response to an account has its limit and the rest of it", async (t) => {
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

test("a request over the limit is 42900 with the time to wait, and is served after it", async (t) => {
  const { daemon, clock } = await startAt9(t, THREE);
  const { key } = daemon.account;
  for (let i = 0; i < 3; i++) assert.equal((await ask(daemon.url, withKey(key))).code, 20000);
  clock.advance(10_001);

  const refused = await ask(daemon.url, withKey(key));
  assert.equal(refused.code, 42900);
  assert.equal(refused.response.status, 429);
  assert.deepEqual(limitHeaders(refused), ['"requests";q=3;w=60', '"requests";r=0;t=50', "50"]);
  assert.match(refused.body.errors?.[0]?.detail ?? "", /3 requests/);
  assert.equal((await ask(daemon.url, posting(daemon, "{}"))).code, 42900);

  clock.advance(49_998);
  assert.equal((await ask(daemon.url, withKey(key))).code, 42900);
  clock.advance(1);
  assert.equal((await ask(daemon.url, withKey(key))).code, 20000);
});

test("all keys of an account share one limit, and each account has its own", async (t) => {
  const { daemon } = await startAt9(t, THREE);
  const other = await createTestAccount(daemon.file, "other");
  const { key } = await makeKey(daemon);
  assert.equal((await ask(daemon.url, withKey(key))).code, 20000);
  assert.equal((await ask(daemon.url, withKey(daemon.account.key))).code, 20000);

  assert.equal((await ask(daemon.url, withKey(key))).code, 42900);
  assert.equal((await ask(daemon.url, withKey(daemon.account.key))).code, 42900);
  assert.equal((await ask(daemon.url, withKey(other.key))).code, 20000);
});

test("the 301st refused credential of an address in a minute is 42900, and valid keys pass", async (t) => {
  const { daemon, clock } = await startAt9(t);
  const connection = await openRaw(t, daemon.url);
  const fine = withKey(daemon.account.key);
  const wrong = withKey(newKey().key);
  for (let i = 0; i < 300; i++) assert.equal((await askOn(connection, wrong)).code, 40100);
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

test("a missing, malformed or unknown key and another login are failed authentications", async (t) => {
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

test("an address at its limit of failures gets 40101 for a revoked key and 40102 for a disabled account", async (t) => {
  const { daemon } = await startAt9(t, TWO_FAILURES);
  const { revoked, disabled } = await createRefused(t, daemon);
  const codeOf = async (headers: readonly string[]) =>
    (await ask(daemon.url, { target: TASKS_READY, headers })).code;
  const signInCode = async (body: { readonly login: string; readonly key: string }) =>
    (await ask(daemon.url, pagePost(SESSION, body))).code;
  for (const expected of [40100, 40100, 42900]) assert.equal(await codeOf([]), expected);

  for (const [code, { login, key }] of [[40101, revoked] as const, [40102, disabled] as const]) {
    const basic = Buffer.from(`${login}:${key}`).toString("base64");
    assert.equal(await codeOf([`Authorization: Bearer ${key}`]), code);
    assert.equal(await codeOf([`Authorization: Basic ${basic}`]), code);
    assert.equal(await signInCode({ login, key }), code);
  }
  assert.equal((await ask(daemon.url, withKey(daemon.account.key))).code, 20000);
  assert.equal(await codeOf([]), 42900);
});

test("requests with a revoked key are not failed authentications", async (t) => {
  const { daemon } = await startAt9(t, TWO_FAILURES);
  const { revoked } = await createRefused(t, daemon);
  for (let i = 0; i < 3; i++) {
    assert.equal((await ask(daemon.url, withKey(revoked.key))).code, 40101);
  }
  assert.equal((await ask(daemon.url, withKey(newKey().key))).code, 40100);
});

test("refused credentials count by address, and by /64 of IPv6", async (t) => {
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

test("limits.tasks_per_post is the largest number of tasks of a post", async (t) => {
  const { daemon } = await startAt9(t, "[limits]\ntasks_per_post = 2\n");
  assert.equal((await ask(daemon.url, posting(daemon, "[{},{}]"))).code, 20000);
  const many = await ask(daemon.url, posting(daemon, "[{},{},{}]"));
  assert.equal(many.code, 40006);
  assert.match(many.body.errors?.[0]?.detail ?? "", /2 .* 3/);
  await daemon.daemon.idle();
  assert.equal((await daemon.ready()).tasks_count, 2);
});
