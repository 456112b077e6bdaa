import assert from "node:assert/strict";
import { test } from "node:test";

import { startTestDaemon } from "../helpers/daemon.ts";
import { headerOf, openRaw } from "../helpers/raw-http.ts";
import type { RawRequest } from "../helpers/raw-http.ts";
import { ask, askOn, bearer, JSON_TYPE, TASK_POST, taskGet, TASKS_READY } from "./answer.ts";

const UNKNOWN_ID = "01890a5d-ac96-774b-bcce-b302099a8057";
const TEXT = "Content-Type: text/plain";
const GZIP = "Content-Encoding: gzip";
const TOO_LARGE = "x".repeat(1025);
const LIMITS = "[limits]\nbody = 1024\n";
const HUNDRED_AND_ONE = JSON.stringify(Array.from({ length: 101 }, () => 1));

test("of several broken rules the first in the contract's order is the one that is named", async (t) => {
  const daemon = await startTestDaemon(t, { toml: LIMITS });
  const key = bearer(daemon);
  const bad = { headers: [TEXT, GZIP], body: TOO_LARGE };
  const post = { method: "POST", target: TASK_POST };
  const cases: readonly (readonly [number, RawRequest])[] = [
    // Path, before everything else.
    [40400, { method: "PATCH", target: "/v1/tasks/nothing", ...bad }],
    [40400, { method: "PATCH", target: "/", ...bad, host: false }],
    [40000, { method: "PATCH", target: "/v1/tasks/task_get/%zz", ...bad, host: false }],
    [40000, { method: "PUT", target: "/%ff", ...bad }],
    // Method, before what is said about the host, and before credentials.
    [40500, { method: "PUT", target: TASK_POST, ...bad, host: false }],
    [40500, { method: "POST", target: taskGet("nonsense", "?nonsense=1"), ...bad }],
    [40500, { method: "POST", target: `${TASKS_READY}?limit=0`, ...bad }],
    [40500, { method: "GET", target: TASK_POST }],
    [40500, { method: "HEAD", target: `${TASK_POST}?x` }],
    [40000, { ...post, ...bad, host: false }],
    // Credentials, before anything about the body, the query and the id.
    [40100, { ...post, ...bad }],
    [40100, { ...post, headers: [JSON_TYPE], body: "not JSON" }],
    [40100, { target: taskGet("nonsense", "?nonsense=1") }],
    [40100, { target: `${TASKS_READY}?limit=0` }],
    // Media type and coding, before the size.
    [41500, { ...post, headers: [key, TEXT], body: TOO_LARGE }],
    [41500, { ...post, headers: [key, JSON_TYPE, GZIP], body: TOO_LARGE }],
    [41500, { ...post, headers: [key], body: "" }],
    // Size, before what the bytes say; what they say, before what it means.
    [41300, { ...post, headers: [key, JSON_TYPE], body: TOO_LARGE }],
    [40502, { ...post, headers: [key, JSON_TYPE], body: "" }],
    [40503, { ...post, headers: [key, JSON_TYPE], body: `${HUNDRED_AND_ONE}]` }],
    [40006, { ...post, headers: [key, JSON_TYPE], body: HUNDRED_AND_ONE }],
    [40503, { ...post, headers: [key, JSON_TYPE], body: '[1,{"nonsense":1}]' }],
    [20000, { ...post, headers: [key, JSON_TYPE], body: '{"nonsense":1}' }],
    [40000, { target: taskGet("nonsense", "?nonsense=1"), headers: [key] }],
    [40401, { target: taskGet("nonsense"), headers: [key] }],
  ];

  for (const [code, request] of cases) {
    const { response, code: got } = await ask(daemon.url, request);
    const expected = request.method === "HEAD" ? [405, null] : [response.status, code];
    assert.deepEqual([response.status, got], expected, JSON.stringify(request));
  }
});

test("every other method of a path is 40500, with the methods it has in Allow", async (t) => {
  const daemon = await startTestDaemon(t);
  const methods = "GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PROPFIND QUERY".split(" ");
  const paths = [
    [TASK_POST, "POST"],
    [TASKS_READY, "GET, HEAD"],
    [taskGet(UNKNOWN_ID), "GET, HEAD"],
    ["/livez", "GET, HEAD"],
    ["/readyz", "GET, HEAD"],
  ] as const;

  for (const [target, allow] of paths) {
    for (const method of methods.filter((each) => !allow.split(", ").includes(each))) {
      const { response, body } = await ask(daemon.url, { method, target });
      assert.equal(response.status, 405, `${method} ${target}`);
      assert.equal(headerOf(response, "allow"), allow);
      if (method === "HEAD") continue;
      assert.deepEqual(body, { status_code: 40500, status_message: "Method Not Allowed." });
    }
  }
});

test("a method is compared exactly: `post` is none that there is", async (t) => {
  const { url } = await startTestDaemon(t);
  const connection = await openRaw(t, url);
  const { code } = await askOn(connection, { method: "post", target: TASK_POST, body: "{}" });

  assert.equal(code, 40000);
});

test("a path that names nothing is 40400 with nothing else in it", async (t) => {
  const daemon = await startTestDaemon(t);
  const targets = [
    ["/", "/v1", "/v1/", "/v1/task", "/v2/tasks/task_post", "/v1/tasks/task_postx"],
    ["/v1/tasks/task_get", "/v1/tasks/task_get/", `/v1/tasks/task_get/${UNKNOWN_ID}/x`],
    ["//v1/tasks/task_post", "/v1//tasks/task_post", "/V1/tasks/task_post", "/LIVEZ", "/livez/x"],
    ["/v1%2ftasks%2ftask_post", "/..%2flivez", "/livez;a=b"],
    ["/__proto__", "/constructor", "/v1/tasks/toString", "/.env", "/metric", "/livez%00"],
    ["/v1/tasks/task_post/../../../etc/passwd", "/*", "/**", "/:id", "/livez%2f"],
  ].flat();

  for (const target of targets) {
    const { response, code, body } = await ask(daemon.url, { target });
    assert.equal(code, 40400, target);
    assert.equal(response.status, 404);
    assert.deepEqual(body, { status_code: 40400, status_message: "Not Found." });
  }
});

test("a path may be spelled with percent escapes and dot segments, and is judged by what it means", async (t) => {
  const daemon = await startTestDaemon(t);
  const targets = [
    ["/%6c%69vez", 200],
    ["/v1/../livez", 200],
    ["/x/%2e%2e/livez", 200],
    ["/./livez", 200],
    ["/v1/tasks/t%61sk_post", 405],
    ["/v1/tasks/task_post/../tasks_ready", 401],
    ["/v1%2e/../livez", 200],
    ["/%", 400],
    ["/%g0", 400],
    ["/%c3", 400],
    ["/%ed%a0%80", 400],
  ] as const;

  for (const [target, status] of targets) {
    const { response } = await ask(daemon.url, { target });
    assert.equal(response.status, status, target);
  }
});

test("every answer has a request id of its own, errors and kept connections included", async (t) => {
  const daemon = await startTestDaemon(t);
  const key = bearer(daemon);
  const requests: readonly RawRequest[] = [
    { target: "/livez" },
    { target: "/readyz" },
    { method: "HEAD", target: "/livez" },
    { target: "/nothing" },
    { target: "/%zz" },
    { method: "DELETE", target: "/livez" },
    { target: TASKS_READY },
    { target: TASKS_READY, headers: [key] },
    { target: taskGet(UNKNOWN_ID), headers: [key] },
    { method: "POST", target: TASK_POST, headers: [key, JSON_TYPE], body: "[{}]" },
    { method: "POST", target: TASK_POST, headers: [key, JSON_TYPE], body: "[" },
    { method: "POST", target: TASK_POST, headers: [key], body: "[]" },
  ];
  const connection = await openRaw(t, daemon.url);
  const seen: string[] = [];
  for (const request of [...requests, ...requests]) {
    seen.push((await ask(daemon.url, request)).requestId);
    seen.push((await askOn(connection, request)).requestId);
  }
  connection.send("nonsense\r\n\r\n");
  seen.push(headerOf(await connection.next(), "x-request-id") ?? "");

  assert.equal(new Set(seen).size, 4 * requests.length + 1);
});
