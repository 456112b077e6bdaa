import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { createClient, PostbackdError, type ClientSettings } from "../../src/client/client.ts";
import { findFreePort } from "../helpers/port.ts";
import { startReceiver, type Reply } from "../helpers/receiver.ts";
import { callsOf, startClient } from "./calls.ts";

const KEY = `pbd_live_${"a".repeat(40)}`;

function answer(
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): Reply {
  return { kind: "status", status, body: JSON.stringify(body), headers };
}

const BUSY = answer(503, { status_code: 50300, status_message: "Service Unavailable." });
const TOO_MANY = answer(
  429,
  { status_code: 42900, status_message: "Too Many Requests." },
  { "retry-after": "1" },
);
const OK = { status_code: 20000, status_message: "Ok." };
const TASK = { id: "1", state: "queued", status_code: 20100, status_message: "Task Created." };
const POSTED = answer(200, { ...OK, tasks: [TASK] });
const KEYS = answer(200, { ...OK, keys: [], key: { key_id: "key_1" } });

/** A server with these responses, in this order, and a client of it. */
async function startScripted(t: TestContext, replies: readonly Reply[], retries = 3) {
  const last = replies.at(-1) ?? BUSY;
  const receiver = await startReceiver(t, { reply: (_, index) => replies[index] ?? last });
  return { receiver, client: createClient({ url: receiver.url(""), key: KEY, retries }) };
}

test("a safe request is sent again after a 503, the page of a proxy, and a broken connection", async (t) => {
  const page: Reply = { kind: "status", status: 502, body: "<html>" };
  const { receiver, client } = await startScripted(t, [BUSY, page, { kind: "reset" }, POSTED]);

  const { id } = await client.tasks.post({ input: 1 });

  assert.equal(id, "1");
  const keys = receiver.requests.map(({ headers }) => headers["idempotency-key"]);
  const bodies = receiver.requests.map(({ rawBody }) => rawBody.toString());
  assert.match(keys[0] ?? "", /^[0-9a-f]{32}$/);
  assert.deepEqual([new Set(keys).size, new Set(bodies).size, keys.length], [1, 1, 4]);
});

test("a request that fails after all retries rejects with the last error", async (t) => {
  const { receiver, client } = await startScripted(t, [BUSY], 2);

  await assert.rejects(client.keys.list(), { code: 50300, status: 503 });

  assert.equal(receiver.requests.length, 3);
});

test("an unsafe request is sent again only after a 429", async (t) => {
  const { receiver, client } = await startScripted(t, [BUSY, TOO_MANY, KEYS]);

  await assert.rejects(client.keys.create(), { code: 50300 });
  const begun = performance.now();
  const key = await client.keys.create();

  assert.equal(key.key_id, "key_1");
  assert.equal(receiver.requests.length, 3);
  // A timer may fire a millisecond early.
  assert.ok(performance.now() - begun >= 990, "it waits for as long as Retry-After says");
});

test("a run whose wait is refused rejects with its idempotency key", async (t) => {
  const body = { status_code: 40102, status_message: "Account disabled." };
  const { client } = await startScripted(t, [POSTED, answer(401, body)]);
  const idempotencyKey = "order-17";

  await assert.rejects(client.tasks.run({}, { idempotencyKey }), { code: 40102, idempotencyKey });
});

test("a Retry-After beyond a minute rejects", async (t) => {
  const body = { status_code: 42900, status_message: "Too Many Requests." };
  const { receiver, client } = await startScripted(t, [answer(429, body, { "retry-after": "61" })]);

  await assert.rejects(client.keys.list(), { code: 42900, retryAfterSeconds: 61 });

  assert.equal(receiver.requests.length, 1);
});

test("a refused request is not sent again", async (t) => {
  const body = { status_code: 50000, status_message: "Internal Error." };
  const { receiver, client } = await startScripted(t, [answer(500, body)]);

  await assert.rejects(client.keys.list(), { code: 50000 });

  assert.equal(receiver.requests.length, 1);
});

test("a redirect is not followed, and its target gets no key", async (t) => {
  const elsewhere = await startReceiver(t);
  const location = elsewhere.url("/v1/appendix/user_data");
  for (const status of [301, 302, 307, 308]) {
    const { receiver, client } = await startScripted(t, [answer(status, {}, { location })]);
    await assert.rejects(client.keys.list(), /does not follow redirects/);
    assert.equal(receiver.requests.length, 1);
  }
  assert.deepEqual(elsewhere.requests, []);
});

test("the error of an unreachable daemon contains its URL and no key", async () => {
  const url = `http://127.0.0.1:${await findFreePort()}`;
  const client = createClient({ url, key: KEY, retries: 0 });

  const error: unknown = await client.tasks.get("1").catch((caught: unknown) => caught);

  assert(error instanceof PostbackdError);
  assert.deepEqual([error.code, error.status], [null, null]);
  assert.ok(error.message.includes(url), error.message);
  assert.match(error.message, /ECONNREFUSED/);
  assert.ok(!JSON.stringify(error).includes(KEY));
});

test("the response of another program rejects", async (t) => {
  const { client } = await startScripted(t, [{ kind: "status", status: 200, body: "<html>" }]);

  await assert.rejects(client.keys.list(), /HTTP 200/);
});

const WRONG: readonly (readonly [word: RegExp, Partial<ClientSettings>])[] = [
  [/url/, { url: "daemon.example" }],
  [/url/, { url: "ftp://daemon.example" }],
  [/url .* user/, { url: "https://user:secret@daemon.example" }],
  [/url/, { url: "https://daemon.example/?key=secret" }],
  [/No key/, { key: "" }],
  [/key .*white space/, { key: `${KEY}\n` }],
  [/retries/, { retries: -1 }],
];
for (const [word, wrong] of WRONG) {
  test(`createClient refuses ${JSON.stringify(wrong)}, and its error contains no secret`, () => {
    const create = () => createClient({ url: "https://daemon.example", key: KEY, ...wrong });
    assert.throws(create, (error) => {
      assert(error instanceof TypeError);
      assert.match(error.message, word);
      assert.doesNotMatch(error.message, /secret|aaaa/);
      return true;
    });
  });
}

const SHAPES: readonly unknown[] = [
  ...[null, 7, "ok", [], {}, { message: "ok" }],
  ...[[], null, 7, [null], [7], [{}], { id: "1" }].map((part) => {
    const lists = ["tasks", "deliveries", "keys", "types", "redeliveries", "attempts"];
    const others = ["key", "redelivery", "limits", "queued", "next_cursor", "request_id"];
    return Object.fromEntries([...lists, ...others].map((name) => [name, part]));
  }),
  { tasks: [{ ...TASK, status_message: null }], next_cursor: 7 },
];

/** A client of a daemon that always responds with this body and 200. */
function clientOf(body: unknown) {
  const text = JSON.stringify(body);
  const fetch = async () => new Response(text, { status: 200 });
  return createClient({ url: "https://daemon.example", key: KEY, retries: 0, fetch });
}

test("a response of another shape rejects with a PostbackdError in every method", async () => {
  for (const shape of SHAPES) {
    const client = clientOf(shape);
    for (const call of callsOf(client)) {
      const expected = { name: "PostbackdError", status: 200 };
      await assert.rejects(call(client), expected, `${String(call)} of ${JSON.stringify(shape)}`);
    }
  }
});

test("a response without the part that a method reads rejects with a PostbackdError at most", async () => {
  for (const shape of SHAPES.slice(4)) {
    const client = clientOf({ ...OK, ...Object(shape) });
    for (const call of callsOf(client)) {
      await call(client).catch((error: unknown) => {
        const at = `${String(call)} of ${JSON.stringify(shape)}: ${String(error)}`;
        assert.ok(error instanceof PostbackdError, at);
      });
    }
  }
});

test("a refusal whose errors have another shape is a PostbackdError with its code", async (t) => {
  const refusal = { status_code: 40501, status_message: "Invalid Field.", errors: [null, 7, {}] };
  const { client } = await startScripted(t, [answer(400, refusal)]);

  await assert.rejects(client.keys.create(), { name: "PostbackdError", code: 40501, errors: [] });
});

for (const cursors of [["a"], ["a", "b", "c"]]) {
  test(
    `a list whose cursors go round (${cursors.join(" ")}) ends with an error`,
    { timeout: 20_000 },
    async (t) => {
      const pages = Array.from({ length: 100 }, (_, n) => {
        const next_cursor = cursors[n % cursors.length];
        return answer(200, { ...OK, tasks: [], deliveries: 1, queued: 0, running: 0, next_cursor });
      });
      const { client } = await startScripted(t, pages);
      const { tasks, redeliveries } = client;
      const since = "2026-01-01T00:00:00Z";

      await assert.rejects(tasks.list().next(), { name: "PostbackdError" });
      await assert.rejects(tasks.cancelMany({}), { name: "PostbackdError" });
      await assert.rejects(redeliveries.count({ since }), { name: "PostbackdError" });
    },
  );
}

test("a signal ends every method with its reason", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  const client = createClient({ url: receiver.url(""), key: KEY });

  for (const [index, call] of callsOf(client).entries()) {
    const controller = new AbortController();
    const reason = new Error(`call ${index}`);
    const called = call(client, { signal: controller.signal });
    const asserted = assert.rejects(called, reason);
    await receiver.waitFor(index + 1);
    controller.abort(reason);
    await asserted;
    await assert.rejects(call(client, { signal: controller.signal }), reason);
  }
});

test("a signal ends a wait between two tries", async (t) => {
  const { receiver, client } = await startScripted(t, [TOO_MANY]);
  const controller = new AbortController();

  const called = client.keys.list({ signal: controller.signal });
  await receiver.waitFor(1);
  controller.abort(new Error("enough"));

  await assert.rejects(called, /enough/);
});

test("wait repeats its request until the task has ended, once a second at most", async (t) => {
  const open = answer(200, { ...OK, tasks: [{ ...TASK, state: "running" }] });
  const done = answer(200, { ...OK, tasks: [{ ...TASK, state: "completed", result: 7 }] });
  const { receiver, client } = await startScripted(t, [open, done]);
  const begun = performance.now();

  const task = await client.tasks.wait("1");

  assert.equal(task.result, 7);
  assert.ok(performance.now() - begun >= 900);
  assert.deepEqual(
    receiver.requests.map(({ headers }) => headers["prefer"]),
    ["wait=30", "wait=30"],
  );
});

test("the error of a refused field has its pointer and the request id", async (t) => {
  const { client } = await startClient(t);

  await assert.rejects(client.keys.create({ label: "x".repeat(1000) }), (error) => {
    assert(error instanceof PostbackdError);
    assert.deepEqual([error.code, error.errors[0]?.pointer], [40501, "/label"]);
    assert.deepEqual([error.status, error.name], [400, "PostbackdError"]);
    assert.match(error.requestId ?? "", /^[-0-9a-f]{36}$/);
    return true;
  });
});
