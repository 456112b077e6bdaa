import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { HOUR_MS } from "../../src/domain/clock/duration.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { headerOf, type RawRequest } from "../helpers/raw-http.ts";
import { newTaskId, openTestStore } from "../helpers/store.ts";
import { fieldsOf, USER_DATA } from "./account.ts";
import { ask, bearer, codeOf, JSON_TYPE, type Answer } from "./answer.ts";
import { signInOperator, type Operator } from "./session-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const EMAIL = "ada@example.com";
const NO_LIMIT = "access_requests_per_hour = 0";
const BEHIND_PROXY = 'trusted_proxies = ["127.0.0.1/32"]\n';

async function start(t: TestContext, { limit = NO_LIMIT, toml = "" } = {}) {
  const daemon = await startTestDaemon(t, { toml: `${toml}[limits]\n${limit}\n` });
  return { daemon, operator: await signInOperator(daemon) };
}

/** A daemon on a virtual clock. */
async function startAt9(t: TestContext, { limit = NO_LIMIT, toml = "" } = {}) {
  const clock = createFakeClock({ now: NOW });
  return {
    clock,
    daemon: await startTestDaemon(t, { clock, toml: `${toml}[limits]\n${limit}\n` }),
  };
}

function request(body: unknown, lines: readonly string[] = []): RawRequest {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const headers = [JSON_TYPE, ...lines];
  return { method: "POST", target: "/v1/access_requests", headers, body: text };
}

/** The codes of requests that are forwarded for these addresses. */
async function codesFrom({ url }: TestDaemon, ...addresses: readonly string[]) {
  const codes: (number | null)[] = [];
  for (const address of addresses) {
    codes.push(await codeOf(url, request({ email: EMAIL }, [`X-Forwarded-For: ${address}`])));
  }
  return codes;
}

const idOf = (answer: Answer) => fieldsOf<{ request_id: string }>(answer).request_id;

/** Requests access; returns the request's id. */
async function requestAccess({ url }: TestDaemon, fields: object = {}): Promise<string> {
  return idOf(await ask(url, request({ email: EMAIL, ...fields })));
}

async function waiting(operator: Operator): Promise<readonly string[]> {
  return (await operator.get("/access_requests")).fields.requests.map(({ id }) => id);
}

async function logins(operator: Operator): Promise<readonly string[]> {
  return (await operator.get("/accounts")).fields.accounts.map(({ login }) => login);
}

clusterTest(
  "the operator sees requests oldest first and exactly as sent, and those decided with which=all",
  async (t) => {
    const { daemon, operator } = await start(t);
    const hostile = {
      email: "Ada.Lovelace+work@Example.COM",
      name: "<img src=x onerror=alert(1)>\u202e  𝒻 \u00a0",
      company: '=cmd|"/C calc"!A0\'; DROP TABLE accounts; --',
      message: '{"__proto__":1}\r\n\u200b\ttwo lines',
    };
    const first = await requestAccess(daemon, hostile);
    const second = await requestAccess(daemon, { name: null, message: "" });

    const { fields } = await operator.get("/access_requests");
    const undecided = { decision: null, decided_at: null };
    const bare = { email: EMAIL, name: null, company: null, message: "" };
    const shown = fields.requests.map(({ created_at: at, ...rest }) => {
      assert.ok(Date.parse(at) > 0);
      return rest;
    });
    assert.deepEqual(shown, [
      { id: first, ...hostile, ...undecided },
      { id: second, ...bare, ...undecided },
    ]);
    assert.equal(fields.more, false);

    assert.equal((await operator.post(`/access_requests/deny/${first}`)).code, 20000);
    assert.deepEqual(await waiting(operator), [second]);
    const all = (await operator.get("/access_requests?which=all")).fields.requests;
    assert.deepEqual(
      all.map(({ id, decision }) => `${id} ${decision}`),
      [`${first} denied`, `${second} null`],
    );
  },
);

clusterTest(
  "the response is the same for a repeated request, a decided one and an account's address",
  async (t) => {
    const { daemon, operator } = await start(t);
    const email = "tester@example.com";
    const first = await ask(daemon.url, request({ email }));
    await operator.post(`/access_requests/deny/${idOf(first)}`);
    const others = [
      await ask(daemon.url, request({ email })),
      await ask(daemon.url, request({ email })),
      await ask(daemon.url, request({ email: "nobody@example.com" })),
    ];

    const shapeOf = ({ response }: Answer) => ({
      status: response.status,
      names: response.headers.map(([name]) => name),
      body: response.body.toString().replace(/"request_id":"[^"]*"/, ""),
      length: response.body.length,
    });
    for (const other of others) assert.deepEqual(shapeOf(other), shapeOf(first));
    assert.equal((await waiting(operator)).length, 3);
  },
);

test("an e-mail address is checked by the domain's rule, and other fields for length and control characters", async (t) => {
  const { daemon, operator } = await start(t);
  const fine = [
    { email: "δοκιμή@παράδειγμα.δοκιμή" },
    { name: "𝒻".repeat(255), company: "x".repeat(255), message: "𝒻".repeat(4000) },
    { name: "", company: "", message: "\n\r\t" },
  ];
  const bad: readonly (readonly [field: string, values: readonly unknown[]])[] = [
    ["email", [null, "", "ada", `${EMAIL}\r\nBcc: all@example.com`, `${"a".repeat(250)}@b.cd`]],
    ["name", ["x".repeat(256), "a\nb", "\u0085"]],
    ["company", ["\t", "𝒻".repeat(256)]],
    [
      "message",
      ["x".repeat(4001), "a\u0000b", "\u001b]0;x\u0007", "\u007f", "\u009b31m", "\ud800"],
    ],
  ];
  for (const more of fine) {
    assert.equal(await codeOf(daemon.url, request({ email: EMAIL, ...more })), 20000);
  }
  for (const [field, values] of bad) {
    for (const value of values) {
      const { code, body } = await ask(daemon.url, request({ email: EMAIL, [field]: value }));
      assert.deepEqual([code, body.errors?.[0]?.pointer], [40501, `/${field}`], String(value));
    }
  }
  assert.equal((await waiting(operator)).length, fine.length);
});

test("the longest message in ASCII escapes fits into a body", async (t) => {
  const { daemon } = await start(t);
  const text = (length: number) => String.raw`\u4e2d`.repeat(length);
  const body = `{"email":"${EMAIL}","name":"${text(255)}","message":"${text(4000)}"}`;
  assert.equal(await codeOf(daemon.url, request(body)), 20000);
});

test("the twenty-first request of an address in an hour is 42900", async (t) => {
  const { daemon, clock } = await startAt9(t, { limit: "" });
  // Neither a refused request nor another forwarded address changes the count.
  assert.equal(await codeOf(daemon.url, request({})), 40501);
  const send = (i: number) =>
    ask(daemon.url, request({ email: EMAIL }, [`X-Forwarded-For: 203.0.113.${i}`]));
  for (let i = 0; i < 20; i++) {
    const { code, response } = await send(i);
    assert.equal(code, 20000);
    assert.equal(headerOf(response, "ratelimit-policy"), '"access-requests";q=20;w=3600');
    assert.equal(headerOf(response, "ratelimit"), `"access-requests";r=${19 - i};t=3600`);
    assert.equal(headerOf(response, "retry-after"), null);
  }
  clock.advance(HOUR_MS - 1500);
  const { code, response } = await send(20);
  assert.equal(code, 42900);
  assert.equal(headerOf(response, "retry-after"), "2");
  assert.equal(headerOf(response, "ratelimit"), '"access-requests";r=0;t=2');

  clock.advance(1500);
  assert.equal((await send(21)).code, 20000);
});

test("a /48 of IPv6 has five times the requests of an address, from any number of its /64s", async (t) => {
  const limit = "access_requests_per_hour = 2";
  const { daemon, clock } = await startAt9(t, { limit, toml: BEHIND_PROXY });
  const network = (first: number, count: number): readonly string[] =>
    Array.from({ length: count }, (_, i) => `2001:db8:1:${(first + i).toString(16)}::1`);
  // One /64 uses up only its own.
  await codesFrom(daemon, ...Array.from({ length: 20 }, () => "2001:db8:1:0::1"));
  const codes = await codesFrom(daemon, ...network(1, 19));

  assert.equal(codes.filter((code) => code === 20000).length, 8);
  assert.equal(codes.at(-1), 42900);
  assert.deepEqual(await codesFrom(daemon, "2001:db8:2:1::1", "203.0.113.7"), [20000, 20000]);
  clock.advance(HOUR_MS);
  assert.deepEqual(await codesFrom(daemon, ...network(1, 1)), [20000]);
});

test("a request for which ten thousand others leave no place is 42900, and after a day replaces the oldest", async (t) => {
  const { daemon, clock } = await startAt9(t);
  const beside = await openTestStore(t, { file: daemon.file, backlogMax: 20_000 });
  const fields = { email: "x@example.com", name: null, company: null, message: null };
  const ids = Array.from({ length: 10_000 }, () => newTaskId(NOW));
  const pendingMax = ids.length;
  await Promise.all(
    ids.map((id) => beside.insertAccessRequest({ id, fields, createdAt: NOW, pendingMax })),
  );

  const refused = await ask(daemon.url, request({ email: EMAIL }));
  assert.equal(refused.code, 42900);
  assert.match(headerOf(refused.response, "retry-after") ?? "", /^\d+$/);
  await beside.denyAccessRequest({ id: ids[0] ?? "", decidedAt: clock.now() });
  assert.equal(await codeOf(daemon.url, request({ email: EMAIL })), 20000);

  clock.advance(24 * HOUR_MS + 1);
  assert.equal(await codeOf(daemon.url, request({ email: "bob@example.com" })), 20000);
  const pending = await beside.listAccessRequests({ which: "pending", limit: 20_000 });
  assert.equal(pending.length, 10_000);
  assert.equal(pending[0]?.id, ids[2]);
  assert.equal(pending.at(-1)?.email, "bob@example.com");
});

test("no field of an access request is logged", async (t) => {
  const { daemon } = await start(t);
  const fields = { email: "private@example.com", name: "PRIVATE", message: "PRIVATE" };
  await ask(daemon.url, request(fields));
  await ask(daemon.url, request({ ...fields, PRIVATE: 1 }));
  await daemon.daemon.stop();
  assert.doesNotMatch(daemon.logLines.join(""), /private/i);
});

test("a page of long requests has fewer of them and more: true", async (t) => {
  const { daemon, operator } = await start(t);
  const message = "ш".repeat(4000);
  const ids: string[] = [];
  for (let i = 0; i < 67; i++) ids.push(await requestAccess(daemon, { message }));

  assert.deepEqual(await waiting(operator), ids.slice(0, 65));
  assert.equal((await operator.get("/access_requests")).fields.more, true);
  for (const id of ids.slice(0, 2)) await operator.post(`/access_requests/deny/${id}`);
  assert.deepEqual(await waiting(operator), ids.slice(2));
  assert.equal((await operator.get("/access_requests")).fields.more, false);
});

clusterTest(
  "of four approvals at the same time one makes an account and shows its key",
  async (t) => {
    const { daemon, operator } = await start(t);
    const id = await requestAccess(daemon);
    const approve = (login: string) => operator.post(`/access_requests/approve/${id}`, { login });
    const answers = await Promise.all(["a", "b", "c", "d"].map(approve));

    const codes = answers.map(({ code }) => String(code)).toSorted();
    assert.deepEqual(codes, ["20000", "40000", "40000", "40000"]);
    const { response, fields } = answers.find(({ code }) => code === 20000) ?? assert.fail();
    assert.equal(headerOf(response, "cache-control"), "no-store");
    const { login, key, webhook_secret: secret } = fields;
    const headers = [bearer({ account: { login, key, secret } })];
    assert.equal(await codeOf(daemon.url, { target: USER_DATA, headers }), 20000);
    assert.equal((await operator.post(`/access_requests/deny/${id}`)).code, 40000);
    assert.deepEqual(await logins(operator), [login, "tester"]);
  },
);

test("a request stays undecided after an approval with a taken or bad login", async (t) => {
  const { daemon, operator } = await start(t);
  const id = await requestAccess(daemon);
  for (const login of ["tester", "a b"]) {
    const { code, body } = await operator.post(`/access_requests/approve/${id}`, { login });
    assert.deepEqual([code, body.errors?.[0]?.pointer], [40501, "/login"], login);
  }
  assert.deepEqual(await waiting(operator), [id]);
});
