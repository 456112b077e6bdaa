import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { createAccount } from "./authentication.ts";
import { bearer, Client, KEY, KEY_ID, SECRET, TIME, UUID_V7, type KeyShown } from "./client.ts";
import { PART, type Subject } from "./subject.ts";
import { TOML, type Parts } from "./tasks.ts";

// Contract §1, row by row: code, message, HTTP status; null for task level alone.
const CODES: readonly (readonly [number, string, number | null])[] = [
  [20000, "Ok.", 200],
  [20100, "Task Created.", 200],
  [40000, "Bad Request.", 400],
  [40006, "Too Many Tasks.", 400],
  [40100, "Authentication failed.", 401],
  [40101, "API key revoked.", 401],
  [40102, "Account disabled.", 401],
  [40300, "HTTPS Required.", 403],
  [40301, "Forbidden.", 403],
  [40400, "Not Found.", 404],
  [40401, "Task Not Found.", 404],
  [40403, "Results Expired.", 410],
  [40500, "Method Not Allowed.", 405],
  [40501, "Invalid Field: 'NAME'. REASON", 400],
  [40502, "POST Data Is Empty.", 400],
  [40503, "POST Data Is Invalid.", 400],
  [40506, "Unknown Field: 'NAME'.", null],
  [40601, "Task In Progress.", null],
  [40602, "Task In Queue.", null],
  [40800, "Wait Timed Out.", 408],
  [40901, "Task Cancelled.", null],
  [40902, "Task Not Cancellable.", 409],
  [40910, "Active Key Limit Reached.", 409],
  [41300, "Payload Too Large.", 413],
  [41500, "Unsupported Media Type.", 415],
  [42200, "Idempotency-Key Reused.", 422],
  [42900, "Too Many Requests.", 429],
  [50000, "Internal Error.", 500],
  [50010, "Task Execution Failed.", null],
  [50300, "Service Unavailable.", 503],
  [50401, "Task Timed Out.", null],
  [50402, "Task Expired.", null],
  [50700, "Insufficient Storage.", 507],
];

const KEY_FIELDS = ["key_id", "prefix", "last_four", "label", "created_at"];

/** Contract §3, the operations on accounts and the public ones. */
export function exerciseAppendix(subject: Subject): void {
  test("contract §3, account and reference", PART, async (t) => {
    const served = await subject.serve(t, { toml: TOML });
    const client = new Client(served.url, bearer(served.account.key));
    await keys(t, { served, client });
    await userData(t, { served, client });
    await reference(t, client.as(null));
    await accessRequests(t, { served, client: client.as(null) });
  });
}

async function keys(t: TestContext, { served, client }: Parts): Promise<void> {
  const path = "/v1/appendix/keys";

  await t.test("POST /v1/appendix/keys: makes a key and shows it whole, this once", async () => {
    const { status, headers, body } = await client.send(path, { body: { label: "ci" } });
    const { key } = body;

    assert.equal(status, 200);
    assert.deepEqual(Object.keys(key).toSorted(), [...KEY_FIELDS, "key"].toSorted());
    assert.match(key.key ?? "", KEY);
    assert.match(key.key_id, KEY_ID);
    assert.match(key.created_at, TIME);
    assert.deepEqual([key.prefix, key.label], ["pbd_live_", "ci"]);
    assert.equal(key.last_four, key.key?.slice(-4));
    assert.match(headers.get("cache-control") ?? "", /\bno-store\b/);
    assert.deepEqual(await client.as(bearer(key.key ?? "")).verdict(), [200, 20000]);
  });

  await t.test("POST /v1/appendix/keys: the body is optional, and so is label", async () => {
    for (const body of [undefined, {}, { label: null }]) {
      const answer = await client.send(path, { method: "POST", body });
      assert.deepEqual([answer.status, answer.body.key?.label], [200, null], answer.text);
    }
    for (const body of [{ label: 1 }, { label: "a\nb" }]) {
      const { status, body: answer } = await client.send(path, { body });
      assert.deepEqual([status, answer.status_code], [400, 40501]);
      assert.equal(answer.errors[0]?.pointer, "/label");
    }
  });

  await t.test(
    "DELETE /v1/appendix/keys/{key_id}: revokes; again answers 200 the same",
    async () => {
      const { key } = (await client.send(path, { method: "POST" })).body;
      const remove = () => client.send(`${path}/${key.key_id}`, { method: "DELETE" });
      const first = await remove();
      assert.deepEqual(await client.as(bearer(key.key ?? "")).verdict(), [401, 40101]);
      const second = await remove();

      assert.deepEqual([first.status, first.body.status_code], [200, 20000]);
      assert.deepEqual([second.status, second.text], [200, first.text]);
    },
  );

  await t.test(
    "DELETE /v1/appendix/keys/{key_id}: unknown, malformed or another's is 40400",
    async () => {
      const { key } = await createAccount(served, "owner");
      for (const id of [key.key_id, `key_${"0".repeat(32)}`, "nonsense"]) {
        const { status, body } = await client.send(`${path}/${id}`, { method: "DELETE" });
        assert.deepEqual([status, body.status_code], [404, 40400], id);
      }
      assert.deepEqual(await client.as(bearer(key.key)).verdict(), [200, 20000]);
    },
  );
}

async function userData(t: TestContext, { served }: Parts): Promise<void> {
  await t.test("GET /v1/appendix/user_data: the account, its keys, limits and counts", async () => {
    const { key, secret } = await createAccount(served, "owner-of-data");
    const client = new Client(served.url, bearer(key.key));
    await client.run({ type: "echo" });
    await client.run({ type: "echo" });
    await client.run({ type: "fail" });
    const made = (await client.send("/v1/appendix/keys", { body: { label: "x" } })).body.key;
    await client.send(`/v1/appendix/keys/${made.key_id}`, { method: "DELETE" });
    const { headers, body } = await client.send("/v1/appendix/user_data");

    assert.deepEqual([body.login, body.webhook_secret], ["owner-of-data", secret]);
    assert.match(body.webhook_secret, SECRET);
    assert.equal(body.webhook_secret_next, null);
    const fields = [...KEY_FIELDS, "last_used_at", "revoked_at"].toSorted();
    const shown: readonly KeyShown[] = body.keys;
    for (const each of shown) assert.deepEqual(Object.keys(each).toSorted(), fields);
    const states = Object.fromEntries(shown.map((each) => [each.key_id, each]));
    assert.equal(states[key.key_id]?.revoked_at, null);
    assert.match(states[key.key_id]?.last_used_at ?? "", TIME);
    assert.match(states[made.key_id]?.revoked_at ?? "", TIME);
    assert.equal(states[made.key_id]?.last_used_at, null);
    const { key_limit, limits, retention_days, tasks } = record(body);
    assert.deepEqual([key_limit, retention_days], [20, 30]);
    assert.equal(typeof limits, "object");
    const counts = { queued: 0, running: 0, completed: 2, failed: 1, cancelled: 0 };
    assert.deepEqual(tasks, counts);
    assert.match(headers.get("cache-control") ?? "", /\bno-store\b/);
  });
}

async function reference(t: TestContext, client: Client): Promise<void> {
  await t.test("GET /v1/appendix/marketplaces: the operator's list", async () => {
    const { body } = await client.send("/v1/appendix/marketplaces");
    assert.deepEqual(record(body)["marketplaces"], [
      { code: "de", name: "Germany", currency: "EUR" },
    ]);
  });

  await t.test("GET /v1/appendix/status: in words, per component, no counts", async () => {
    const { body } = await client.send("/v1/appendix/status");
    const { status, components } = record(body);

    assert.ok(["operational", "degraded", "down"].includes(String(status)));
    assert.deepEqual(Object.keys(record(components)).toSorted(), ["api", "runners", "webhooks"]);
    const { status_code: _code, ...rest } = record(body);
    assert.doesNotMatch(JSON.stringify(rest), /\d/);
  });

  await t.test("GET /v1/appendix/status_codes: the table of §1", async () => {
    const { body } = await client.send("/v1/appendix/status_codes");
    const table = CODES.map(([code, message, http]) => ({ code, message, http }));
    assert.deepEqual(record(body)["status_codes"], table);
  });

  await t.test("GET of the reference: with ETag and Cache-Control", async () => {
    for (const name of ["marketplaces", "status", "status_codes"]) {
      const path = `/v1/appendix/${name}`;
      const { headers } = await client.send(path);
      const etag = headers.get("etag") ?? "";
      assert.notEqual(headers.get("cache-control"), null, name);
      const again = await client.send(path, { headers: { "if-none-match": etag } });
      assert.deepEqual([again.status, again.text], [304, ""], name);
    }
  });

  await t.test("GET /livez, /readyz, /openapi.json: answer", async () => {
    for (const path of ["/livez", "/readyz"]) assert.equal((await client.send(path)).status, 200);
    const { body } = await client.send("/openapi.json");
    assert.match(String(record(body)["openapi"]), /^3\.1\./);
    const paths = Object.keys(record(record(body)["paths"]));
    for (const path of ["/v1/tasks/task_post", "/v1/access_requests"]) {
      assert.ok(paths.includes(path), path);
    }
  });

  await t.test("GET of what is not there: 40400; another method: 40500 with Allow", async () => {
    const unknown = await client.send("/v1/tasks/no_such_thing");
    const method = await client.send("/v1/appendix/keys");

    assert.deepEqual([unknown.status, unknown.body.status_code], [404, 40400]);
    assert.deepEqual([method.status, method.body.status_code], [405, 40500]);
    assert.equal(method.headers.get("allow"), "POST");
    for (const { headers } of [unknown, method]) assert.notEqual(headers.get("x-request-id"), null);
  });
}

async function accessRequests(t: TestContext, { served, client }: Parts): Promise<void> {
  const path = "/v1/access_requests";
  const full = {
    email: "ada@example.com",
    name: "Ada",
    company: "Engines",
    message: "Hello.\nBye",
  };

  await t.test(
    "POST /v1/access_requests: takes an address and more, answers uniformly",
    async () => {
      for (const body of [full, full, { email: "eve@example.com" }]) {
        const answer = await client.send(path, { body });
        assert.deepEqual([answer.status, answer.body.status_code], [200, 20000]);
        assert.match(answer.body.request_id, UUID_V7);
        assert.deepEqual(Object.keys(answer.body), ["status_code", "status_message", "request_id"]);
      }
    },
  );

  await t.test("POST /v1/access_requests: a bad field is 40501 with its pointer", async () => {
    for (const [body, pointer] of [
      [{}, "/email"],
      [{ email: "nobody" }, "/email"],
      [{ ...full, name: 1 }, "/name"],
      [{ ...full, phone: "1" }, "/phone"],
    ] as const) {
      const { status, body: answer } = await client.send(path, { body });
      assert.deepEqual([status, answer.status_code], [400, 40501], JSON.stringify(body));
      assert.equal(answer.errors[0]?.pointer, pointer);
    }
  });

  await t.test(
    "POST /v1/access_requests: the 21st in an hour from an address is 42900",
    async () => {
      const answers: number[] = [];
      // Each daemon takes in its part of the twenty, and none takes a part of one.
      const others = (served.daemons ?? 1) - 1;
      // Three were taken in above; what was refused may count or not.
      for (let i = 0; i < 18 + 6 * others; i += 1) {
        const { status, body, headers } = await client.send(path, { body: full });
        answers.push(body.status_code);
        if (status === 429) assert.ok(Number(headers.get("retry-after")) > 0);
      }
      const accepted = answers.filter((code) => code === 20000).length;
      assert.ok(accepted <= 17 + others && accepted >= 13, String(accepted));
      // Of several daemons one may refuse before another.
      const refused = others === 0 ? answers.slice(accepted) : answers.slice(-1);
      assert.deepEqual(new Set(refused), new Set([42900]));
    },
  );
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  assert.ok(typeof value === "object" && value !== null);
  return { ...value };
}
