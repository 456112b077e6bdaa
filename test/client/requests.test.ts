import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import {
  createClient,
  PostbackdError,
  type Client,
  type ClientSettings,
} from "../../src/client/client.ts";
import { findFreePort } from "../helpers/port.ts";
import { startReceiver, type ReceivedRequest, type Reply } from "../helpers/receiver.ts";
import { startClient } from "./start.ts";

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

/** A server that answers so, in this order, and a client of it. */
async function startScripted(t: TestContext, replies: readonly Reply[], retries = 3) {
  const last = replies.at(-1) ?? BUSY;
  const receiver = await startReceiver(t, { reply: (_, index) => replies[index] ?? last });
  return { receiver, client: createClient({ url: receiver.url(""), key: KEY, retries }) };
}

function namesOf(requests: readonly ReceivedRequest[]): readonly string[] {
  return requests.map(({ method, url }) => `${method} ${url}`);
}

test("what is safe to repeat is sent again after a 503, a proxy's page, and a connection that breaks", async (t) => {
  const page: Reply = { kind: "status", status: 502, body: "<html>" };
  const { receiver, client } = await startScripted(t, [BUSY, page, { kind: "reset" }, POSTED]);

  const { id } = await client.tasks.post({ input: 1 });

  assert.equal(id, "1");
  const keys = receiver.requests.map(({ headers }) => headers["idempotency-key"]);
  const bodies = receiver.requests.map(({ rawBody }) => rawBody.toString());
  assert.match(keys[0] ?? "", /^[0-9a-f]{32}$/);
  assert.deepEqual([new Set(keys).size, new Set(bodies).size, keys.length], [1, 1, 4]);
});

test("tries end after as many as there may be, and the last error is told", async (t) => {
  const { receiver, client } = await startScripted(t, [BUSY], 2);

  await assert.rejects(client.keys.list(), { code: 50300, status: 503 });

  assert.equal(receiver.requests.length, 3);
});

test("what may do something twice is sent once, unless the daemon says that it did nothing", async (t) => {
  const { receiver, client } = await startScripted(t, [BUSY, TOO_MANY, KEYS]);

  await assert.rejects(client.keys.create(), { code: 50300 });
  const begun = performance.now();
  const key = await client.keys.create();

  assert.equal(key.key_id, "key_1");
  assert.equal(receiver.requests.length, 3);
  assert.ok(performance.now() - begun >= 1000, "it waits for as long as Retry-After says");
});

test("run whose wait is refused names the key with which it may be called again", async (t) => {
  const body = { status_code: 40102, status_message: "Account disabled." };
  const { client } = await startScripted(t, [POSTED, answer(401, body)]);
  const idempotencyKey = "order-17";

  await assert.rejects(client.tasks.run({}, { idempotencyKey }), { code: 40102, idempotencyKey });
});

test("a Retry-After beyond a minute is left to the caller", async (t) => {
  const body = { status_code: 42900, status_message: "Too Many Requests." };
  const { receiver, client } = await startScripted(t, [answer(429, body, { "retry-after": "61" })]);

  await assert.rejects(client.keys.list(), { code: 42900, retryAfterSeconds: 61 });

  assert.equal(receiver.requests.length, 1);
});

test("a refusal is not asked for again", async (t) => {
  const body = { status_code: 50000, status_message: "Internal Error." };
  const { receiver, client } = await startScripted(t, [answer(500, body)]);

  await assert.rejects(client.keys.list(), { code: 50000 });

  assert.equal(receiver.requests.length, 1);
});

for (const status of [301, 302, 307, 308]) {
  test(`a redirect (${status}) gets no key and is told`, async (t) => {
    const elsewhere = await startReceiver(t);
    const reply = answer(status, {}, { location: elsewhere.url("/v1/appendix/user_data") });
    const { receiver, client } = await startScripted(t, [reply]);

    await assert.rejects(client.keys.list(), /Redirects are not followed with a key\.$/);

    assert.deepEqual(elsewhere.requests, []);
    assert.deepEqual(namesOf(receiver.requests), ["GET /v1/appendix/user_data"]);
  });
}

test("a daemon that is not there is named, and the key is not", async (t) => {
  const url = `http://127.0.0.1:${await findFreePort()}`;
  const client = createClient({ url, key: KEY, retries: 0 });

  const error: unknown = await client.tasks.get("1").catch((caught: unknown) => caught);

  assert(error instanceof PostbackdError);
  assert.deepEqual([error.code, error.status], [null, null]);
  assert.ok(error.message.startsWith(`The daemon at ${url} does not answer (`), error.message);
  assert.match(error.message, /ECONNREFUSED/);
  assert.ok(!JSON.stringify(error).includes(KEY));
  void t;
});

test("another program's answer is told as such", async (t) => {
  const { client } = await startScripted(t, [{ kind: "status", status: 200, body: "<html>" }]);

  await assert.rejects(client.keys.list(), /^PostbackdError: HTTP 200, and not what postbackd/);
});

const WRONG: readonly (readonly [RegExp, Partial<ClientSettings>])[] = [
  [/^The url has to be/, { url: "daemon.example" }],
  [/^The url has to be/, { url: "ftp://daemon.example" }],
  [/^The url takes no user/, { url: "https://user:secret@daemon.example" }],
  [/^The url takes no user/, { url: "https://daemon.example/?key=secret" }],
  [/^There is no key/, { key: "" }],
  [/^The key has white space/, { key: `${KEY}\n` }],
  [/^The retries/, { retries: -1 }],
];

for (const [message, wrong] of WRONG) {
  test(`settings are refused: ${JSON.stringify(wrong)}`, () => {
    const create = () => createClient({ url: "https://daemon.example", key: KEY, ...wrong });

    assert.throws(create, (error) => {
      assert(error instanceof TypeError);
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /secret|aaaa/);
      return true;
    });
  });
}

type Options = { readonly signal?: AbortSignal };

/** A call of each method. */
function callsOf(client: Client): readonly ((options: Options) => Promise<unknown>)[] {
  const { tasks, keys, account, redeliveries, reference } = client;
  const since = "2026-01-01T00:00:00Z";
  const calls: readonly ((options: Options) => Promise<unknown>)[] = [
    (options) => tasks.post({}, options),
    (options) => tasks.postMany([{}], options),
    (options) => tasks.run({}, options),
    (options) => tasks.get("1", options),
    (options) => tasks.wait("1", options),
    (options) => tasks.list(options).next(),
    (options) => tasks.ready(options).next(),
    (options) => tasks.search("", options).next(),
    (options) => tasks.cancel("1", options),
    (options) => tasks.cancelMany(options),
    (options) => tasks.attempts(options),
    (options) => tasks.deliveries("1", options),
    (options) => tasks.timeline("1", options),
    (options) => tasks.redeliver("1", options),
    (options) => keys.create(options),
    (options) => keys.list(options),
    (options) => keys.revoke("1", options),
    (options) => account.get(options),
    (options) => account.types(options),
    (options) => account.overview(options),
    (options) => account.series(options),
    (options) => account.hosts(options),
    (options) => account.changes(options).next(),
    (options) => redeliveries.count({ since, ...options }),
    (options) => redeliveries.create({ since, ...options }),
    (options) => redeliveries.list(options),
    (options) => redeliveries.cancel("1", options),
    (options) => reference.marketplaces(options),
    (options) => reference.status(options),
    (options) => reference.statusCodes(options),
    (options) => reference.openApi(options),
    (options) => reference.live(options),
    (options) => reference.ready(options),
    (options) => reference.requestAccess({ email: "a@b.example", ...options }),
  ];
  const methods = Object.values(client).flatMap((group) => Object.keys(group));
  assert.equal(calls.length, methods.length);
  return calls;
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

test("JSON of another shape rejects with a PostbackdError in every method", async (t) => {
  for (const shape of SHAPES) {
    const body = JSON.stringify(shape);
    const { client } = await startScripted(t, [{ kind: "status", status: 200, body }], 0);
    for (const call of callsOf(client)) {
      await assert.rejects(
        call({}),
        { name: "PostbackdError", status: 200 },
        `${String(call)} of ${body}`,
      );
    }
  }
});

test("a response without the part that a method reads rejects with a PostbackdError", async (t) => {
  for (const shape of SHAPES.slice(4)) {
    const { client } = await startScripted(t, [answer(200, { ...OK, ...Object(shape) })], 0);
    for (const call of callsOf(client)) {
      await call({}).catch((error: unknown) => {
        assert.ok(
          error instanceof PostbackdError,
          `${String(call)} of ${JSON.stringify(shape)}: ${String(error)}`,
        );
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

test("every method is broken off by its signal, with the signal's reason", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  const client = createClient({ url: receiver.url(""), key: KEY });

  for (const [index, call] of callsOf(client).entries()) {
    const controller = new AbortController();
    const reason = new Error(`call ${index}`);
    const called = call({ signal: controller.signal });
    const asserted = assert.rejects(called, reason);
    await receiver.waitFor(index + 1);
    controller.abort(reason);
    await asserted;
    await assert.rejects(call({ signal: controller.signal }), reason);
  }
});

test("a wait between two tries is broken off too", async (t) => {
  const { receiver, client } = await startScripted(t, [TOO_MANY]);
  const controller = new AbortController();

  const called = client.keys.list({ signal: controller.signal });
  await receiver.waitFor(1);
  controller.abort(new Error("enough"));

  await assert.rejects(called, /enough/);
});

test("wait asks again where a task has not ended, and no more than once a second", async (t) => {
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

test("a field that the daemon refuses is told with its pointer", async (t) => {
  const { client } = await startClient(t);

  await assert.rejects(client.keys.create({ label: "x".repeat(1000) }), (error) => {
    assert(error instanceof PostbackdError);
    assert.deepEqual([error.code, error.errors[0]?.pointer], [40501, "/label"]);
    assert.match(error.requestId ?? "", /^[-0-9a-f]{36}$/);
    return true;
  });
});
