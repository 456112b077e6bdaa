import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { createClient, PostbackdError, type Client } from "../../src/client/client.ts";
import { ACTIVE_KEYS_MAX } from "../../src/domain/account/key.ts";
import { STATUS_TABLE, type StatusCode } from "../../src/domain/status.ts";
import { runProgram } from "../helpers/program.ts";
import { documentedErrors, documentOf } from "./documented.ts";
import { startClient } from "./start.ts";

const UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057";

/** A daemon, and what makes it refuse. */
interface Refused {
  readonly toml?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly call: (client: Client, made: Made) => Promise<unknown>;
}

interface Made {
  readonly t: TestContext;
  readonly url: string;
  readonly file: string;
  readonly login: string;
}

async function disabled(client: Client, { t, file, login }: Made): Promise<unknown> {
  const { code } = await runProgram(t, ["admin", "account", "disable", login, "--db", file]);
  assert.equal(code, 0);
  return client.account.get();
}

async function revoked(client: Client, { url }: Made): Promise<unknown> {
  const { key_id: id, key } = await client.keys.create();
  await client.keys.revoke(id);
  return createClient({ url, key, retries: 0 }).account.get();
}

async function tooManyKeys({ keys }: Client): Promise<unknown> {
  for (let made = 1; made < ACTIVE_KEYS_MAX; made++) await keys.create();
  return keys.create();
}

async function completed({ tasks }: Client): Promise<unknown> {
  const { id } = await tasks.run({ input: 1 });
  return tasks.cancel(id);
}

async function keyReused({ tasks }: Client): Promise<unknown> {
  await tasks.post({ input: 1 }, { idempotencyKey: "one" });
  return tasks.post({ input: 2 }, { idempotencyKey: "one" });
}

async function tooManyRequests({ account }: Client): Promise<unknown> {
  await account.get();
  return account.get();
}

const CASES: Partial<Record<StatusCode, Refused>> = {
  40000: { call: ({ tasks }) => tasks.list({ created_after: "yesterday" }).next() },
  40100: { call: (_, { url }) => createClient({ url, key: "x", retries: 0 }).account.get() },
  40101: { call: revoked },
  40102: { call: disabled },
  40300: {
    toml: 'trusted_proxies = ["127.0.0.1"]\n',
    headers: { "x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "http" },
    call: ({ account }) => account.get(),
  },
  40400: { call: ({ keys }) => keys.revoke("key_unknown") },
  40401: { call: ({ tasks }) => tasks.deliveries(UNKNOWN.replace("01890a5d", "7fffffff")) },
  40403: { call: ({ tasks }) => tasks.get(UNKNOWN) },
  40501: { call: ({ keys }) => keys.create({ label: "\n" }) },
  40902: { call: completed },
  40910: { call: tooManyKeys },
  41300: { call: ({ tasks }) => tasks.post({ input: "x".repeat(1024 ** 2) }) },
  42200: { call: keyReused },
  42900: { toml: "[limits]\nrequests_per_minute = 1\n", call: tooManyRequests },
  50700: { toml: '[limits.account]\nbytes = "1KiB"\n', call: ({ tasks }) => tasks.post({}) },
};

/** Errors that the document has for these operations, and no call of the client can lead to here. */
const OTHERS: Partial<Record<StatusCode, string>> = {
  40006: "the client posts no more at once than the daemon takes",
  40301: "the operator's session, which the client does not have",
  40502: "the client sends no empty body",
  40503: "the client sends JSON",
  41500: "the client sends it as JSON",
  50000: "a bug of the daemon",
  50300: "a daemon that stops: test/client/restarts.test.ts",
};

test("each error of the document has a case here, or the reason why none can be made", async (t) => {
  const { daemon } = await startClient(t);
  const { document, own } = await documentOf(daemon.url);
  const codes = own.flatMap(({ operation }) =>
    documentedErrors(document, operation).map(({ code }) => String(code)),
  );

  const known = [...Object.keys(CASES), ...Object.keys(OTHERS)];
  assert.deepEqual([...new Set(codes)].toSorted(), known.toSorted());
});

for (const [text, { toml = "", headers = {}, call }] of Object.entries(CASES)) {
  // Keys of objects are texts.
  const code = Number(text) as StatusCode;
  test(`${code} of a daemon is told as it is documented: ${STATUS_TABLE[code].message}`, async (t) => {
    const { daemon } = await startClient(t, { toml });
    const { key, login } = daemon.account;
    const client = createClient({
      url: daemon.url,
      key,
      retries: 0,
      fetch: (input, init) => {
        const request = new Request(input, init);
        for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
        return fetch(request);
      },
    });

    const made = { t, url: daemon.url, file: daemon.file, login };
    const error: unknown = await call(client, made).then(
      () => assert.fail("it was not refused"),
      (caught: unknown) => caught,
    );

    assert.ok(error instanceof PostbackdError, String(error));
    assert.deepEqual([error.code, error.status], [code, STATUS_TABLE[code].http]);
    assert.match(error.requestId ?? "", /^[0-9a-f-]{36}$/);
    assert.ok(error.message.startsWith(STATUS_TABLE[code].message.slice(0, 8)), error.message);
    if (code === 40501) assert.equal(error.errors[0]?.pointer, "/label");
    if (code === 42900) assert.ok((error.retryAfterSeconds ?? 0) > 0);
  });
}
