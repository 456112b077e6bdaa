import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { newKey } from "../../src/domain/account/key.ts";
import type { OwnLimits } from "../../src/domain/account/quota.ts";
import { DAY_MS } from "../../src/domain/clock/duration.ts";
import {
  type TestAccount,
  type TestDaemon,
  createTestAccount,
  openBeside,
} from "../helpers/daemon.ts";
import { headerLines, headerOf, openRaw } from "../helpers/raw-http.ts";
import { openTestStore } from "../helpers/store.ts";
import { KEYS, NOW, USER_DATA, makeKey, revokeKeysOf, startAt9, userDataOf } from "./account.ts";
import {
  type Answer,
  JSON_TYPE,
  TASKS_READY,
  TASK_POST,
  ask,
  askOn,
  bearer,
  posting,
  taskGet,
} from "./answer.ts";
import {
  FROM_PAGE,
  SESSION,
  cookieLine,
  pagePost,
  signInOperator,
  signedIn,
} from "./session-requests.ts";

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

test("limits.tasks_per_post is the largest number of tasks of a post", async (t) => {
  const { daemon } = await startAt9(t, "[limits]\ntasks_per_post = 2\n");
  assert.equal((await ask(daemon.url, posting(daemon, "[{},{}]"))).code, 20000);
  const many = await ask(daemon.url, posting(daemon, "[{},{},{}]"));
  assert.equal(many.code, 40006);
  assert.match(many.body.errors?.[0]?.detail ?? "", /2 .* 3/);
  await daemon.daemon.idle();
  assert.equal((await daemon.ready()).tasks_count, 2);
});

/** Tasks that stay open. */
const LATER = { start_at: "2030-02-01T09:00:00.000Z" };

function post(
  { url }: TestDaemon,
  { account, tasks, headers = [] }: { account: TestAccount; tasks: unknown; headers?: string[] },
): Promise<Answer> {
  const request = posting({ account }, JSON.stringify(tasks));
  return ask(url, { ...request, headers: [...(request.headers ?? []), ...headers] });
}

/** Another process changes the limits of the account. */
async function limit(t: TestContext, { file }: TestDaemon, limits: Partial<OwnLimits>) {
  const beside = await openTestStore(t, { file });
  assert.notEqual(await beside.changeLimits({ login: "tester", limits }), null);
  await beside.close();
}

function detailOf({ body }: Answer): string {
  return body.errors?.[0]?.detail ?? "";
}

test("an account at its limit of open tasks is 42900 for one more, and others are not", async (t) => {
  const { daemon } = await startAt9(t, "[limits.account]\nopen_tasks = 3\n");
  const { account } = daemon;
  const other = await createTestAccount(daemon.file, "other");
  assert.equal((await post(daemon, { account, tasks: [LATER, LATER] })).code, 20000);

  const refused = await post(daemon, { account, tasks: [LATER, LATER] });
  assert.equal(refused.code, 42900);
  assert.equal(headerOf(refused.response, "retry-after"), "10");
  assert.match(detailOf(refused), /may have 3 open.* has 2, and this post has 2\..* --open-tasks/);
  assert.equal((await userDataOf(daemon)).usage.open_tasks, 2);
  assert.equal((await post(daemon, { account, tasks: LATER })).code, 20000);
  assert.equal((await post(daemon, { account, tasks: LATER })).code, 42900);
  assert.equal((await post(daemon, { account: other, tasks: LATER })).code, 20000);
  assert.equal((await userDataOf(daemon)).usage.open_tasks, 3);
});

test("an account at its limit of bytes is 50700, its results are kept, and retention makes room", async (t) => {
  const { daemon, clock } = await startAt9(t, '[limits.account]\nbytes = "64KiB"\n');
  const { account } = daemon;
  const other = await createTestAccount(daemon.file, "other");
  const large = { input: "x".repeat(40_000) };
  // Input and result together exceed the limit.
  const { tasks } = (await post(daemon, { account, tasks: large })).body;
  await daemon.daemon.idle();

  const finished = await daemon.get(tasks?.[0]?.id ?? "");
  assert.equal(finished.result, large.input);
  const { usage } = await userDataOf(daemon);
  assert(usage.bytes > 80_000 && usage.bytes < 82_000, `${usage.bytes}`);
  const refused = await post(daemon, { account, tasks: {} });
  assert.equal(refused.code, 50700);
  assert.equal(headerOf(refused.response, "retry-after"), "3600");
  const figures = new RegExp(`65536 bytes.* has ${usage.bytes}, .* 30 days .* --bytes SIZE`);
  assert.match(detailOf(refused), figures);
  assert.equal((await post(daemon, { account: other, tasks: {} })).code, 20000);
  await daemon.daemon.idle();

  clock.jump(31 * DAY_MS);
  await daemon.daemon.idle();
  assert.equal((await userDataOf(daemon)).usage.bytes, 0);
  assert.equal((await post(daemon, { account, tasks: {} })).code, 20000);
});

test("an account's own limit applies from the next request on, and so does its removal", async (t) => {
  const { daemon } = await startAt9(t, "[limits.account]\nopen_tasks = 1\n");
  const { account } = daemon;
  const codeOfOne = async () => (await post(daemon, { account, tasks: LATER })).code;
  assert.deepEqual([await codeOfOne(), await codeOfOne()], [20000, 42900]);

  await limit(t, daemon, { openTasks: 2 });
  assert.equal((await userDataOf(daemon)).limits["open_tasks"], 2);
  assert.deepEqual([await codeOfOne(), await codeOfOne()], [20000, 42900]);
  await limit(t, daemon, { openTasks: 0 });
  assert.equal(await codeOfOne(), 20000);
  await limit(t, daemon, { openTasks: null });
  assert.equal((await userDataOf(daemon)).limits["open_tasks"], 1);
  assert.equal(await codeOfOne(), 42900);

  await limit(t, daemon, { requestsPerMinute: 2 });
  const asked = [await codeOfOne(), await codeOfOne()];
  const third = await post(daemon, { account, tasks: LATER });
  assert.deepEqual(asked, [42900, 42900]);
  assert.match(detailOf(third), /2 requests a minute/);
  await limit(t, daemon, { requestsPerMinute: null });
  assert.match(detailOf(await post(daemon, { account, tasks: LATER })), /1 open tasks/);
});

test("tasks of posts are limited per minute, and a post counts entirely or not at all", async (t) => {
  const { daemon, clock } = await startAt9(t, "[limits.account]\ntasks_per_minute = 5\n");
  const { account } = daemon;
  const other = await createTestAccount(daemon.file, "other");
  const limitsOf = ({ response }: Answer) =>
    ["ratelimit-policy", "ratelimit"].map((name) => headerLines(response, name));

  const first = await post(daemon, { account, tasks: [{}, {}, { typo: 1 }] });
  assert.equal(first.code, 20000);
  assert.deepEqual(limitsOf(first), [['"tasks";q=5;w=60'], ['"tasks";r=2;t=60']]);
  clock.advance(20_000);
  const refused = await post(daemon, { account, tasks: [{}, {}, {}] });
  assert.equal(refused.code, 42900);
  assert.equal(headerOf(refused.response, "retry-after"), "40");
  assert.deepEqual(limitsOf(refused), [['"tasks";q=5;w=60'], ['"tasks";r=2;t=40']]);
  assert.match(detailOf(refused), /5 tasks per minute; 2 .* 3\.$/);
  assert.equal((await post(daemon, { account, tasks: [{}, {}] })).code, 20000);
  assert.equal((await post(daemon, { account, tasks: {} })).code, 42900);
  assert.equal((await post(daemon, { account: other, tasks: [{}, {}, {}, {}, {}] })).code, 20000);

  clock.advance(40_000);
  assert.equal((await post(daemon, { account, tasks: [{}, {}, {}, {}, {}] })).code, 20000);
  await limit(t, daemon, { tasksPerMinute: 6 });
  assert.equal((await post(daemon, { account, tasks: [{}, {}] })).code, 42900);
  assert.equal((await post(daemon, { account, tasks: {} })).code, 20000);
  await limit(t, daemon, { tasksPerMinute: 0 });
  const free = await post(daemon, { account, tasks: [{}, {}, {}, {}, {}, {}, {}] });
  assert.equal(free.code, 20000);
  assert.deepEqual(limitsOf(free), [[], []]);
});

test("an account may use half of the room for data if another exists, and all of it if it is alone", async (t) => {
  const { daemon, clock } = await startAt9(t, '[limits]\ndatabase_size = "2MiB"\n');
  const { account } = daemon;
  const large = { ...LATER, input: "x".repeat(600_000) };
  const { code, body } = await post(daemon, { account, tasks: large });
  assert.equal(code, 20000);
  clock.advance(1000);
  assert.equal((await post(daemon, { account, tasks: large })).code, 20000);

  const other = await createTestAccount(daemon.file, "other");
  clock.advance(1000);
  const target = `/v1/tasks/redeliver/${body.tasks?.[0]?.id}`;
  const again = await ask(daemon.url, { method: "POST", target, headers: [bearer({ account })] });
  const refused = await post(daemon, { account, tasks: LATER });
  for (const answer of [again, refused]) {
    assert.equal(answer.code, 50700);
    assert.match(detailOf(answer), /half .* 1048576 bytes/);
  }
  assert.equal((await post(daemon, { account: other, tasks: large })).code, 20000);
  assert.equal((await ask(daemon.url, { target: "/readyz" })).response.status, 200);
});

test("the operator's list and user_data show the same limits and use", async (t) => {
  const { daemon } = await startAt9(t, "[limits.account]\nopen_tasks = 5\n");
  await createTestAccount(daemon.file, "other");
  await daemon.post([LATER, LATER]);
  await limit(t, daemon, { bytes: 4096, tasksPerMinute: 9 });
  const standard = { open_tasks: 5, requests_per_minute: 0 };
  const own = { ...standard, bytes: 4096, tasks_per_minute: 9 };

  const { fields } = await (await signInOperator(daemon, NOW)).get("/accounts");
  const [other, tester] = fields.accounts;
  assert.deepEqual(other?.limits, { ...standard, bytes: 10 * 1024 ** 3, tasks_per_minute: 0 });
  assert.deepEqual(other?.usage, { bytes: 0, open_tasks: 0 });
  assert.deepEqual(tester?.limits, own);
  const { limits, usage } = await userDataOf(daemon);
  assert.deepEqual({ ...limits, ...own }, limits);
  assert.deepEqual(tester?.usage, usage);
  assert.equal(usage.open_tasks, 2);
});

test("an account's own limit applies to its sessions, and to posts of the operator in its name", async (t) => {
  const { daemon } = await startAt9(t);
  const { url, account } = daemon;
  const { login, key } = account;
  await limit(t, daemon, { openTasks: 1, requestsPerMinute: 1 });
  const { secret } = await signedIn(url, pagePost(SESSION, { login, key }));
  const post = { method: "POST", target: TASK_POST, body: JSON.stringify(LATER) };
  const codeWith = async (...headers: string[]) =>
    (await ask(url, { ...post, headers: [JSON_TYPE, ...FROM_PAGE, ...headers] })).code;

  const session = cookieLine(url, secret);
  assert.deepEqual([await codeWith(session), await codeWith(session)], [20000, 42900]);
  const { cookie } = await signInOperator(daemon, NOW);
  const byOperator = await ask(url, {
    ...post,
    headers: [JSON_TYPE, ...FROM_PAGE, cookie, "X-Account: tester"],
  });
  assert.match(detailOf(byOperator), /1 open tasks/);
});
