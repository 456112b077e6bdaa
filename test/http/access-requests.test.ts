import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { AccessRequest } from "../../src/domain/account/account.ts";
import { HOUR_MS } from "../../src/domain/clock/duration.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { openBeside, startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { headerOf, type RawRequest } from "../helpers/raw-http.ts";
import { newTaskId, openTestStore } from "../helpers/store.ts";
import { fieldsOf } from "./account.ts";
import { ask, bearer, JSON_TYPE, type Answer } from "./answer.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const ACCESS = "/v1/access_requests";
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const NO_LIMIT = "[limits]\naccess_requests_per_hour = 0\n";
const BEHIND_PROXY = 'trusted_proxies = ["127.0.0.1/32"]\n';

async function startAt9(t: TestContext, toml = "") {
  const clock = createFakeClock({ now: NOW });
  return { clock, daemon: await startTestDaemon(t, { clock, toml }) };
}

function request(body: unknown, lines: readonly string[] = []): RawRequest {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { method: "POST", target: ACCESS, headers: [JSON_TYPE, ...lines], body: text };
}

function askFrom({ url }: TestDaemon, address: string): Promise<Answer> {
  return ask(url, request({ email: "ada@example.com" }, [`X-Forwarded-For: ${address}`]));
}

/** What the operator sees. */
async function stored(t: TestContext, { file }: TestDaemon): Promise<readonly AccessRequest[]> {
  const beside = await openBeside(t, { file });
  return beside.listAccessRequests({ which: "all", limit: 1000 });
}

test("a request for access needs no key and is stored exactly as it was sent", async (t) => {
  const { daemon } = await startAt9(t);
  const full = {
    email: "Ada.Lovelace+work@Example.COM",
    name: "  Ada 𝒻 O'Lovelace\u00a0",
    company: '=cmd|"/C calc"!A0',
    message: "first\r\nsecond\tline\n\n<script>alert(1)</script> 'x'; DROP TABLE accounts; --",
  };
  const answers = [
    await ask(daemon.url, request(full)),
    await ask(daemon.url, request({ email: "b@example.com", name: null, message: "" })),
  ];

  const ids = answers.map((answer) => fieldsOf<{ request_id: string }>(answer).request_id);
  for (const [i, { code, response }] of answers.entries()) {
    assert.equal(code, 20000);
    assert.match(ids[i] ?? "", UUID);
    assert.deepEqual(Object.keys(JSON.parse(response.body.toString())), [
      ...["status_code", "status_message", "request_id"],
    ]);
  }
  const common = { createdAt: NOW, decision: null };
  const bare = { email: "b@example.com", name: null, company: null, message: "" };
  assert.deepEqual(
    (await stored(t, daemon)).map((each) => ({ ...each })),
    [
      { id: ids[0], ...full, ...common },
      { id: ids[1], ...bare, ...common },
    ],
  );
});

clusterTest(
  "whoever asks gets the same answer: again, or with the address of an account or a decided request",
  async (t) => {
    const { daemon } = await startAt9(t);
    const email = "tester@example.com";
    const first = await ask(daemon.url, request({ email }));
    const beside = await openBeside(t, daemon);
    const [waiting] = await beside.listAccessRequests({ which: "pending", limit: 1 });
    await beside.denyAccessRequest({ id: waiting?.id ?? "", decidedAt: NOW });
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
    assert.equal((await stored(t, daemon)).length, 4);
  },
);

test("an e-mail address that is none is refused, and nothing is stored", async (t) => {
  const { daemon } = await startAt9(t);
  const bad = [
    undefined,
    null,
    "",
    " ",
    "ada",
    "@",
    "ada@",
    "@example.com",
    "a@b@c",
    "ada @example.com",
    " ada@example.com",
    "ada@example.com ",
    "ada@example.com\n",
    "ada@example.com\r\nBcc: all@example.com",
    "ada@exam\u0000ple.com",
    "ada@example.com\u001b[2J",
    "ada@\u202eexample.com",
    "ada\u200b@example.com",
    "ada\u2028@example.com",
    "ada@example.com,eve@example.com",
    "Ada <ada@example.com>",
    '"ada"@example.com',
    "ada(comment)@example.com",
    "ada@[127.0.0.1]",
    "mailto:ada@example.com",
    "ada@example.com\ud800",
    `${"a".repeat(250)}@b.cd`,
    `${"𝒻".repeat(200)}@b.cd`,
    "a".repeat(10_000),
    1,
    true,
    ["ada@example.com"],
    { email: "ada@example.com" },
  ];
  for (const email of bad) {
    const { code, body } = await ask(daemon.url, request({ email }));
    assert.equal(code, 40501, JSON.stringify(email)?.slice(0, 60));
    assert.deepEqual(
      body.errors?.map(({ pointer }) => pointer),
      ["/email"],
    );
  }
  assert.deepEqual(await stored(t, daemon), []);
});

test("an e-mail address may be of any script and 254 characters", async (t) => {
  const { daemon } = await startAt9(t, NO_LIMIT);
  const fine = [
    `${"a".repeat(248)}@b.cde`,
    "δοκιμή@παράδειγμα.δοκιμή",
    "a@b",
    "o'neil+x=1@x.y",
    "-@-",
  ];
  for (const email of fine) assert.equal((await ask(daemon.url, request({ email }))).code, 20000);
  assert.deepEqual(
    (await stored(t, daemon)).map(({ email }) => email),
    fine,
  );
});

test("the other fields are bounded text: control characters are refused, line breaks in the message are not", async (t) => {
  const { daemon } = await startAt9(t, NO_LIMIT);
  const email = "ada@example.com";
  const fine = [
    { name: "𝒻".repeat(255) },
    { company: "x".repeat(255) },
    { message: "𝒻".repeat(4000) },
    { message: "\n\r\t" },
    { name: "", company: "", message: "" },
  ];
  const bad = [
    ["/name", { name: "x".repeat(256) }],
    ["/name", { name: "a\nb" }],
    ["/name", { name: "\u0085" }],
    ["/name", { name: 1 }],
    ["/company", { company: "\t" }],
    ["/company", { company: "𝒻".repeat(256) }],
    ["/company", { company: ["x"] }],
    ["/message", { message: "x".repeat(4001) }],
    ["/message", { message: "a\u0000b" }],
    ["/message", { message: "\u001b]0;x\u0007" }],
    ["/message", { message: "\u007f" }],
    ["/message", { message: "\u009b31m" }],
    ["/message", { message: "\ud800" }],
    ["/message", { message: {} }],
    ["/login", { login: "root" }],
    ["/constructor", { constructor: "x" }],
  ] as const;
  for (const more of fine) {
    assert.equal((await ask(daemon.url, request({ email, ...more }))).code, 20000);
  }
  for (const [pointer, more] of bad) {
    const { code, body } = await ask(daemon.url, request({ email, ...more }));
    assert.equal(code, 40501, pointer);
    assert.deepEqual(
      body.errors?.map((error) => error.pointer),
      [pointer],
    );
  }
  const proto = await ask(daemon.url, request('{"email":"a@b.c","__proto__":{"name":"x"}}'));
  assert.deepEqual(proto.body.errors, [{ pointer: "/__proto__", detail: "It is not known here." }]);
  assert.equal((await stored(t, daemon)).length, fine.length);
});

test("bad bodies are refused in the contract's order, whatever Authorization says", async (t) => {
  const { daemon } = await startAt9(t, "[limits]\nbody = 1024\n");
  const post = { method: "POST", target: ACCESS };
  const cases = [
    [41500, { ...post, body: "" }],
    [41500, { ...post, headers: ["Content-Type: text/plain"], body: "x".repeat(2000) }],
    [41300, request("x".repeat(2000))],
    [40502, request("")],
    [40503, request("{")],
    [40503, request("[]")],
    [40503, request('[{"email":"a@b.c"}]')],
    [40501, request("{}")],
    [40000, { ...request({ email: "a@b.c" }), target: `${ACCESS}?email=a@b.c` }],
    [40500, { method: "GET", target: ACCESS }],
    [40400, { method: "GET", target: `${ACCESS}/01890a5d-ac96-774b-bcce-b302099a8057` }],
  ] as const;
  for (const [code, each] of cases) {
    assert.equal((await ask(daemon.url, each)).code, code, JSON.stringify(each));
  }
  const lines = [bearer(daemon), "Authorization: nonsense"];
  assert.equal((await ask(daemon.url, request({ email: "a@b.c" }, lines))).code, 20000);
});

test("the twenty-first request of an address in an hour is 42900, and after the hour it is fine", async (t) => {
  const { daemon, clock } = await startAt9(t);
  const email = "ada@example.com";
  for (let i = 0; i < 20; i++) {
    const { code, response } = await ask(daemon.url, request({ email }));
    assert.equal(code, 20000);
    assert.equal(headerOf(response, "ratelimit-policy"), '"access-requests";q=20;w=3600');
    assert.equal(headerOf(response, "ratelimit"), `"access-requests";r=${19 - i};t=3600`);
    assert.equal(headerOf(response, "retry-after"), null);
  }
  clock.advance(HOUR_MS - 1500);
  const refused = await ask(daemon.url, request({ email }));
  assert.equal(refused.code, 42900);
  assert.equal(refused.response.status, 429);
  assert.equal(headerOf(refused.response, "retry-after"), "2");
  assert.equal(headerOf(refused.response, "ratelimit"), '"access-requests";r=0;t=2');
  assert.equal((await stored(t, daemon)).length, 20);

  clock.advance(1500);
  assert.equal((await ask(daemon.url, request({ email }))).code, 20000);
});

test("what was refused for its fields does not count", async (t) => {
  const { daemon } = await startAt9(t, "[limits]\naccess_requests_per_hour = 1\n");
  for (let i = 0; i < 5; i++) assert.equal((await ask(daemon.url, request({}))).code, 40501);
  assert.equal((await ask(daemon.url, request({ email: "a@b.c" }))).code, 20000);
  assert.equal((await ask(daemon.url, request({ email: "a@b.c" }))).code, 42900);
});

test("without a limit there are no headers about it", async (t) => {
  const { daemon } = await startAt9(t, NO_LIMIT);
  for (let i = 0; i < 25; i++) {
    const { code, response } = await ask(daemon.url, request({ email: "a@b.c" }));
    assert.equal(code, 20000);
    assert.equal(headerOf(response, "ratelimit"), null);
    assert.equal(headerOf(response, "ratelimit-policy"), null);
  }
});

test("behind a trusted proxy each client has its own limit, of IPv6 each /64", async (t) => {
  const { daemon } = await startAt9(t, `${BEHIND_PROXY}[limits]\naccess_requests_per_hour = 1\n`);
  const codes = async (...addresses: readonly string[]) => {
    const all = [];
    for (const address of addresses) all.push((await askFrom(daemon, address)).code);
    return all;
  };
  assert.deepEqual(await codes("203.0.113.7", "203.0.113.8", "203.0.113.7"), [20000, 20000, 42900]);
  // What a client puts before its own address is its own invention.
  assert.deepEqual(await codes("198.51.100.1, 203.0.113.7"), [42900]);
  assert.deepEqual(await codes("::ffff:203.0.113.7"), [42900]);
  assert.deepEqual(await codes("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"), [
    ...[20000, 42900, 20000],
  ]);
});

test("a /48 of IPv6 has five times the requests of an address, however many /64s ask", async (t) => {
  const toml = `${BEHIND_PROXY}[limits]\naccess_requests_per_hour = 2\n`;
  const { daemon, clock } = await startAt9(t, toml);
  const askOf = async (network: string, i: number): Promise<number | null> =>
    (await askFrom(daemon, `${network}:${i.toString(16)}::1`)).code;
  // One /64 uses up no more than its own.
  for (let i = 0; i < 20; i++) await askOf("2001:db8:1", 0);
  const codes = [];
  for (let i = 1; i < 20; i++) codes.push(await askOf("2001:db8:1", i));

  assert.equal(codes.filter((code) => code === 20000).length, 8);
  assert.equal(codes.at(-1), 42900);
  assert.equal(await askOf("2001:db8:2", 1), 20000);
  assert.equal((await askFrom(daemon, "203.0.113.7")).code, 20000);
  clock.advance(HOUR_MS);
  assert.equal(await askOf("2001:db8:1", 1), 20000);
});

test("when ten thousand requests wait for the operator the oldest gives way after a day", async (t) => {
  const { daemon, clock } = await startAt9(t);
  const beside = await openTestStore(t, { file: daemon.file, backlogMax: 20_000 });
  const fields = { email: "x@example.com", name: null, company: null, message: null };
  const waiting = Array.from({ length: 10_000 }, () => newTaskId(NOW));
  const inserted = waiting.map((id) =>
    beside.insertAccessRequest({ id, fields, createdAt: NOW, pendingMax: 10_000 }),
  );
  await Promise.all(inserted);

  const refused = await ask(daemon.url, request({ email: "ada@example.com" }));
  assert.equal(refused.code, 42900);
  assert.match(headerOf(refused.response, "retry-after") ?? "", /^\d+$/);
  await beside.denyAccessRequest({ id: waiting[0] ?? "", decidedAt: clock.now() });
  assert.equal((await ask(daemon.url, request({ email: "ada@example.com" }))).code, 20000);

  clock.advance(24 * HOUR_MS + 1);
  assert.equal((await ask(daemon.url, request({ email: "bob@example.com" }))).code, 20000);
  const pending = await beside.listAccessRequests({ which: "pending", limit: 20_000 });
  assert.equal(pending.length, 10_000);
  assert.equal(pending[0]?.id, waiting[2]);
  assert.equal(pending.at(-1)?.email, "bob@example.com");
});

test("without a trusted proxy nobody talks himself out of the limit", async (t) => {
  const { daemon } = await startAt9(t, "[limits]\naccess_requests_per_hour = 1\n");
  assert.equal((await askFrom(daemon, "203.0.113.7")).code, 20000);
  assert.equal((await askFrom(daemon, "203.0.113.8")).code, 42900);
});

test("who asks for access, and what for, is never logged", async (t) => {
  const { daemon } = await startAt9(t);
  const fields = { email: "private@example.com", name: "PRIVATE", message: "PRIVATE" };
  await ask(daemon.url, request(fields));
  await ask(daemon.url, request({ ...fields, PRIVATE: 1 }));
  await daemon.daemon.stop();
  assert.doesNotMatch(daemon.logLines.join(""), /private/i);
});

test("the longest message is taken in any script, escaped to ASCII as well", async (t) => {
  const { daemon } = await startAt9(t);
  const message = String.raw`\u4e2d`.repeat(4000);
  const body = `{"email":"ada@example.com","name":"${String.raw`\u4e2d`.repeat(255)}","message":"${message}"}`;
  assert.equal((await ask(daemon.url, request(body))).code, 20000);
});
