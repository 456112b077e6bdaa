import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { exchange, headerLines, openRaw, type RawRequest } from "../helpers/raw-http.ts";
import { startDev, startDevProgram, type DevClient } from "./dev-client.ts";

/** A request that only a daemon for development serves. */
type Call = Required<Pick<RawRequest, "method" | "target">> & { readonly body?: string };

interface Described {
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly examples?: Examples }>>;
  };
}

type Examples = Readonly<Record<string, { readonly value: unknown }>>;

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
}

const METHODS = ["get", "post", "put", "delete"] as const;
const JSON_TYPE = "Content-Type: application/json";

/** A valid request to each documented operation below /dev, and two to an inbox. */
async function allCalls({ ready }: DevClient, values: Record<string, string>): Promise<Call[]> {
  const document = (await (await fetch(`${ready.url}/openapi.json`)).json()) as Document;
  const calls: Call[] = [
    { method: "POST", target: "/inbox/shop", body: "{}" },
    { method: "GET", target: "/inbox/shop/deep?x=1" },
  ];
  for (const [path, item] of Object.entries(document.paths)) {
    if (!path.startsWith("/dev/")) continue;
    const target = path.replace(
      /\{(\w+)\}/g,
      (_, name: string) => values[name] ?? assert.fail(name),
    );
    for (const method of METHODS) {
      const described = item[method];
      if (described === undefined) continue;
      const content = described.requestBody?.content["application/json"];
      const [example] = Object.values(content?.examples ?? {});
      const body = content === undefined ? {} : { body: JSON.stringify(example?.value ?? {}) };
      calls.push({ method: method.toUpperCase(), target, ...body });
    }
  }
  return calls;
}

/** The state that these operations change, as one text. */
async function stateOf({ ask, task }: DevClient, id: string): Promise<string> {
  const parts = [
    await ask("GET /dev/clock"),
    await ask("GET /dev/faults"),
    await ask("GET /dev/inbox"),
    await ask("GET /v1/tasks"),
    await task(id),
    { ...(await ask("GET /v1/appendix/user_data")), keys: null },
  ];
  return JSON.stringify(parts);
}

/** The headers of requests that a page of another site can make: the browser adds them. */
const FOREIGN: readonly (readonly string[])[] = [
  ["Origin: https://evil.example", JSON_TYPE],
  ["Origin: null", JSON_TYPE],
  ["Origin: http://127.0.0.1:1", JSON_TYPE],
  // Sent without a preflight.
  ["Origin: https://evil.example", "Content-Type: text/plain"],
  ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Content-Type: text/plain"],
  ["Sec-Fetch-Site: same-site", JSON_TYPE],
];

const REBOUND = ["Host: rebound.evil.example", JSON_TYPE];

async function startWithHeldTask(t: TestContext) {
  const daemon = await startDev(t);
  await daemon.ask("PUT /dev/results", [{ hold: true }]);
  const [id = ""] = await daemon.post({});
  const calls = await allCalls(daemon, { box: "shop", id, task_id: id });
  assert.ok(calls.length > 15 && calls.some(({ target }) => target === "/dev/reset"));
  await daemon.ask("POST /dev/clock/advance", { by: "1ms" });
  return { daemon, id, calls };
}

test("every operation refuses a request from a page of another site, and changes nothing", async (t) => {
  const { daemon, id, calls } = await startWithHeldTask(t);
  const before = await stateOf(daemon, id);

  for (const { body, ...call } of calls) {
    const headers = [...FOREIGN, REBOUND];
    for (const lines of headers) {
      const host = lines === REBOUND ? { host: false as const } : {};
      const sent = { ...call, ...host, ...(body !== undefined && { body }), headers: lines };
      const answer = await exchange(daemon.ready.url, sent);

      assert.equal(answer.status, 403, `${call.method} ${call.target} ${lines.join()}`);
      assert.match(answer.body.toString(), /"status_code":40301/);
    }
    // A form cannot send JSON.
    if (body === undefined || call.target.startsWith("/inbox/")) continue;
    const plain = { ...call, body, headers: ["Content-Type: text/plain"] };
    assert.equal((await exchange(daemon.ready.url, plain)).status, 415, call.target);
  }

  assert.equal(await stateOf(daemon, id), before);
  const [held = ""] = await daemon.post({});
  await daemon.ask("POST /dev/clock/advance", { by: "1ms" });
  assert.equal((await daemon.task(held)).state, "running", "the rule is still there");
  const logins = [daemon.ready.account, (await daemon.ask("POST /dev/accounts", {})).login];
  assert.deepEqual(logins, ["test-1", "test-2"], "no account was created");
});

test("a daemon that is not for development responds to each of them with 40400", async (t) => {
  const { calls } = await startWithHeldTask(t);
  const { url } = await startTestDaemon(t);

  for (const call of calls) {
    for (const lines of [[], [JSON_TYPE, "X-Postbackd-Mode: dev"], ...FOREIGN]) {
      for (const method of [call.method, "PATCH"]) {
        const answer = await exchange(url, { ...call, method, headers: lines });

        assert.equal(answer.status, 404, `${method} ${call.target} ${lines.join()}`);
        assert.match(answer.body.toString(), /"status_code":40400/);
        assert.deepEqual(headerLines(answer, "x-postbackd-mode"), []);
      }
    }
  }
});

test("every response names the development mode in X-Postbackd-Mode", async (t) => {
  const { ready } = await startDevProgram(t);
  const key = `Authorization: Bearer ${ready.key}`;
  const page = await (await fetch(`${ready.url}/dashboard/`)).text();
  const [, script = ""] = /src="([^"]+)"/.exec(page) ?? assert.fail(page);
  const cases: readonly (readonly [number, RawRequest])[] = [
    [200, { target: "/livez" }],
    [200, { target: "/livez", method: "HEAD" }],
    [200, { target: "/openapi.json" }],
    [200, { target: "/docs" }],
    [200, { target: "/dashboard/" }],
    [200, { target: new URL(script, `${ready.url}/dashboard/`).pathname }],
    [200, { target: "/v1/tasks", headers: [key] }],
    [200, { target: "/inbox/shop", method: "POST", body: "x" }],
    [200, { target: "/dev/clock" }],
    [400, { target: "/v1/tasks?nonsense=1", headers: [key] }],
    [400, { target: "/%zz" }],
    [401, { target: "/v1/tasks" }],
    [403, { target: "/dev/clock", headers: ["Origin: https://evil.example"] }],
    [404, { target: "/nowhere" }],
    [404, { target: "/v1/nowhere" }],
    [200, { target: "/dashboard/nowhere" }],
    [405, { target: "/dev/clock", method: "DELETE" }],
    [413, { target: "/inbox/shop", method: "POST", headers: [`Content-Length: ${5 * 1024 ** 2}`] }],
    [415, { target: "/dev/clock", method: "PUT", body: "x" }],
  ];

  for (const [status, request] of cases) {
    const answer = await exchange(ready.url, request);
    const what = `${request.method ?? "GET"} ${request.target}`;
    assert.equal(answer.status, status, what);
    assert.deepEqual(headerLines(answer, "x-postbackd-mode"), ["dev"], what);
  }
  const connection = await openRaw(t, ready.url);
  connection.send("this is no request\r\n\r\n");
  const answer = await connection.next();
  assert.equal(answer.status, 400);
  assert.deepEqual(headerLines(answer, "x-postbackd-mode"), ["dev"], "an invalid request");
});
