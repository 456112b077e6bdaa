import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { createConfig, lintFromString } from "@redocly/openapi-core";

import { newWebhookSecret } from "../../src/domain/account/key.ts";
import { STATUS_TABLE } from "../../src/domain/status.ts";
import { EXAMPLE_TYPE } from "../../src/http/openapi/examples.ts";
import type { OperationDeps } from "../../src/http/operation-deps.ts";
import { operations } from "../../src/http/operations.ts";
import { openAdminStore, startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { startReceiver, type ReceivedRequest } from "../helpers/receiver.ts";
import {
  type ApiDocument,
  type DocumentedDaemon,
  type DocumentedOperation,
  type DocumentedRequest,
  Judge,
  existingThings,
  fetchDocument,
  operationOf,
  placedOperations,
  requestsOf,
  send,
} from "./api-document.ts";
import { createLink, createOperatorSession } from "./session-requests.ts";
import { createTestWorker } from "./worker-requests.ts";

const NOW = Date.parse("2026-01-31T09:00:00.000Z");
const TASK_ID = "019c131e-0000-7abc-8def-0123456789ab";

// The types of the document's examples.
const TYPES = `[types.echo]\nrunner = "echo"\n[types.${EXAMPLE_TYPE}]\nrunner = "worker"\n`;

const judge = new Judge();

/** A daemon whose clock stands still, with the document that it serves. */
async function startDocumented(
  t: TestContext,
  toml = "",
): Promise<{ readonly daemon: DocumentedDaemon; readonly document: ApiDocument }> {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: `${toml}\n${TYPES}` });
  const token = await createTestWorker(daemon.file, [EXAMPLE_TYPE]);
  const session = await createOperatorSession(daemon.file, NOW);
  const { document } = await fetchDocument(daemon);
  return { daemon: { ...daemon, token, session }, document };
}

test("the linter finds no problem in the document", async (t) => {
  const daemon = await startTestDaemon(t);
  const { text } = await fetchDocument(daemon);
  const config = await createConfig({ extends: ["recommended"] });
  const problems = await lintFromString({ source: text, absoluteRef: "/openapi.json", config });

  const found = problems.map(({ ruleId, message, location }) => [
    ruleId,
    message,
    location[0]?.pointer,
  ]);
  assert.deepEqual(found, []);
});

test("the document has every operation of the table and no other", async (t) => {
  const { document } = await startDocumented(t);
  // Only requests use the dependencies.
  const table = operations({
    ...{ limits: { tasksPerPost: 100 }, marketplaces: [], servesDashboard: true },
    webhooks: { timeoutMs: 10_000, retryAfterMs: [] },
    dev: null,
  } as unknown as OperationDeps);

  const expected = table.map(({ method, path, doc }) => [
    doc.id,
    method,
    path.replaceAll(/:(\w+)/g, "{$1}"),
  ]);
  const documented = placedOperations(document).map(({ operationId, method, path }) => [
    operationId,
    method,
    path,
  ]);
  assert.deepEqual(new Set(documented), new Set(expected));
  assert.equal(documented.length, expected.length);
});

test("each operation of the document names the schemes of its callers", async (t) => {
  const { document } = await startDocumented(t);
  const schemes = ["basic", "bearer", "worker", "metrics", "session"];
  assert.deepEqual(Object.keys(document.components.securitySchemes), schemes);
  const account = [{ basic: [] }, { bearer: [] }, { session: [] }];
  for (const { operationId, path, security } of placedOperations(document)) {
    if (security.length === 0) continue;
    const isOperators = path.startsWith("/v1/operator/");
    const own = path.startsWith("/v1/worker/") ? [{ worker: [] }] : account;
    const scraper = [{ metrics: [] }, { session: [] }];
    const expected = isOperators ? [{ session: [] }] : path === "/metrics" ? scraper : own;
    assert.deepEqual(security, expected, operationId);
  }
});

/** The codes that an answer may have, by its schema. */
function codesOf(operation: DocumentedOperation): readonly number[] {
  return Object.values(operation.responses).flatMap(({ content }) => {
    const text = JSON.stringify(content?.["application/json"]?.schema["allOf"] ?? []);
    const [, listed = ""] =
      /"properties":\{"status_code":\{"enum":\[([\d,]+)\]\}\}/.exec(text) ?? [];
    return listed === "" ? [] : listed.split(",").map(Number);
  });
}

/** The codes of the tasks in the examples of answers. */
function exampleTaskCodes(operation: DocumentedOperation): readonly number[] {
  const { examples = {} } = operation.responses["200"]?.content?.["application/json"] ?? {};
  return Object.values(examples).flatMap(({ value }) => {
    const { tasks = [] } = value as { readonly tasks?: readonly { status_code?: number }[] };
    return tasks.flatMap(({ status_code }) => status_code ?? []);
  });
}

test("every status code is in the table of codes and at each operation that returns it", async (t) => {
  const { document } = await startDocumented(t);
  const all = placedOperations(document);
  const atRequests = new Set(all.flatMap(codesOf));
  const onTasks = new Set(all.flatMap(exampleTaskCodes));
  // Codes of unknown paths, of other methods and of development.
  const nowhere = new Set([40500, 40800]);

  const table = String(document.components.schemas["StatusCode"]?.["description"]);
  for (const [code, { message, http }] of Object.entries(STATUS_TABLE)) {
    assert(table.includes(`| ${code} | ${message} |`), code);
    const isError = http !== null && http >= 400;
    const isMet = (isError ? atRequests : onTasks).has(Number(code));
    assert.equal(isMet, !nowhere.has(Number(code)), code);
  }
  assert.deepEqual(exampleTaskCodes(operationOf(document, "postTasks")), [20100, 40501, 40506]);
  const tasks = JSON.stringify(document.components.schemas["Task"]);
  for (const code of onTasks) assert(tasks.includes(`| ${code} |`), String(code));
});

/** The code of each response, after a check against the document. */
async function codesAnswered(
  daemon: DocumentedDaemon,
  requests: readonly DocumentedRequest[],
): Promise<readonly (number | null)[]> {
  const codes: (number | null)[] = [];
  for (const request of requests) {
    codes.push(await judge.assertAnswerFits(request.operation, await send(daemon, request)));
  }
  return codes;
}

// The credentials of these examples do not exist.
const REFUSED: ReadonlySet<string> = new Set(["signIn", "signInByLink"]);

// A valid cursor is sealed for one account, so the document has no example.
const NO_CURSOR = "cursor=sample";

/** Enough for workers to claim: a claim that finds nothing waits, and here the clock stands still. */
async function queueForWorkers(daemon: DocumentedDaemon): Promise<void> {
  await daemon.post(Array.from({ length: 50 }, () => ({ type: EXAMPLE_TYPE, input: [1.5] })));
}

test("every example request of the document works, and its response fits", async (t) => {
  const { daemon, document } = await startDocumented(t);
  await queueForWorkers(daemon);
  for (const operation of placedOperations(document)) {
    for (const request of requestsOf(operation)) {
      // A task must not have ended for a cancel, and must have ended for a redelivery.
      const state = operation.operationId === "redeliver" ? "finished" : "unfinished";
      const params = await existingThings(daemon, operation, state);
      const response = await send(daemon, { ...request, params });
      const { operationId } = operation;
      const status = REFUSED.has(operationId) ? 401 : request.query === NO_CURSOR ? 400 : 200;
      assert.equal(response.status, status, `${operationId} ${request.query ?? ""}`);
      await judge.assertAnswerFits(operation, response);
    }
  }
});

test("the cookie of a session over HTTPS fits the document", async (t) => {
  const { daemon, document } = await startDocumented(t, 'trusted_proxies = ["127.0.0.1"]\n');
  const headers = { "x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https" };
  const { login, key } = daemon.account;
  const operation = operationOf(document, "signIn");

  const response = await send(daemon, { operation, headers, body: { login, key } });

  assert.match(response.headers.get("set-cookie") ?? "", /^__Host-.*; Secure;/);
  await judge.assertAnswerFits(operation, response);
});

interface Provocation extends Omit<DocumentedRequest, "operation"> {
  readonly id: string;
  readonly code: number;
}

async function assertAnswered(
  { daemon, document }: { readonly daemon: DocumentedDaemon; readonly document: ApiDocument },
  provocations: readonly Provocation[],
): Promise<void> {
  for (const { id, code, ...request } of provocations) {
    const operation = operationOf(document, id);
    const response = await send(daemon, { operation, ...request });
    const answered = await judge.assertAnswerFits(operation, response);
    assert.equal(answered, code, `${id} ${JSON.stringify(request)?.slice(0, 200)}`);
  }
}

test("responses to refused requests fit the document", async (t) => {
  const documented = await startDocumented(t, '[limits]\nbody = "1KiB"\nresult = "1KiB"\n');
  const lease = { id: TASK_ID, lease_id: "x" };
  const post = { id: "postTasks" } as const;
  const key = { "idempotency-key": "order-17" };
  const { login, key: accountKey } = documented.daemon.account;
  const token = await createLink(documented.daemon.file, NOW + 1);
  const elsewhere = { "sec-fetch-site": "cross-site" };

  await assertAnswered(documented, [
    { id: "getSession", code: 20000 },
    { id: "getSession", headers: elsewhere, code: 40301 },
    { id: "signIn", body: { login, key: accountKey }, code: 20000 },
    { id: "signIn", body: { login, key: accountKey }, headers: elsewhere, code: 40301 },
    { id: "signInByLink", body: { token }, code: 20000 },
    { id: "signOut", headers: elsewhere, code: 40301 },
    { id: "signOut", code: 20000 },
    { id: "getTask", params: { id: TASK_ID }, headers: { prefer: "wait=61" }, code: 40000 },
    { ...post, body: Array.from({ length: 101 }, () => ({})), code: 40006 },
    { ...post, body: [], code: 40502 },
    { ...post, body: [{}, 5], code: 40503 },
    { ...post, body: {}, headers: key, code: 20000 },
    { ...post, body: {}, headers: key, code: 20000 },
    { ...post, body: { tag: "other" }, headers: key, code: 42200 },
    { ...post, body: [{ tag: 5 }, { postback: "x" }, { postback_url: "ftp://x" }], code: 20000 },
    { id: "claimTasks", body: { types: ["echo"] }, code: 40301 },
    { id: "heartbeatLeases", body: { leases: [null, lease, {}] }, code: 20000 },
    { id: "completeTasks", body: { tasks: [null, lease, { id: 5 }] }, code: 20000 },
    { id: "failTasks", body: { tasks: [{ ...lease, message: 5 }] }, code: 20000 },
    { id: "releaseLeases", body: { tasks: [lease, "x"] }, code: 20000 },
  ]);
});

test("responses to too many requests fit the document", async (t) => {
  const limits = [
    "requests_per_minute = 2",
    "failed_authentications_per_minute = 1",
    "access_requests_per_hour = 1",
  ];
  const documented = await startDocumented(t, `[limits]\n${limits.join("\n")}\n`);
  const body = { email: "ada@example.com" };
  const wrong = { authorization: "Bearer nonsense" };

  await assertAnswered(documented, [
    { id: "listTasks", code: 20000 },
    { id: "listTasks", query: "limit=0", code: 40000 },
    { id: "listTasks", code: 42900 },
    { id: "postTasks", body: {}, code: 42900 },
    ...Array.from({ length: 5 }, () => {
      return { id: "heartbeatLeases", body: { leases: [] }, code: 20000 };
    }),
    { id: "getUserData", headers: wrong, code: 40100 },
    { id: "getUserData", headers: wrong, code: 42900 },
    { id: "heartbeatLeases", headers: wrong, code: 42900 },
    { id: "requestAccess", body, code: 20000 },
    { id: "requestAccess", body, code: 42900 },
  ]);
});

test("responses of a full daemon and behind a proxy without TLS fit the document", async (t) => {
  const full = await startDocumented(t, "[limits]\ndatabase_size = 1\n");
  await assertAnswered(full, [
    { id: "postTasks", body: {}, code: 50700 },
    { id: "requestAccess", body: { email: "ada@example.com" }, code: 50700 },
  ]);
  const readyz = operationOf(full.document, "isReady");
  const unready = await send(full.daemon, { operation: readyz });
  assert.equal(unready.status, 503);
  await judge.assertAnswerFits(readyz, unready);

  const behind = await startDocumented(t, 'trusted_proxies = ["127.0.0.1"]\n');
  const headers = { "x-forwarded-proto": "http" };
  for (const operation of placedOperations(behind.document)) {
    const answered = await codesAnswered(behind.daemon, [{ operation, headers }]);
    const isOpen = operation.security.length === 0 && !operation.path.startsWith("/v1/");
    assert.notEqual(answered[0] === 40300, isOpen, operation.operationId);
  }
});

/** The callback of a webhook: its only method. */
function callbackOf(document: ApiDocument, kind: "postback" | "pingback"): DocumentedOperation {
  const expression = operationOf(document, "postTasks").callbacks?.[kind] ?? {};
  assert.deepEqual(Object.keys(expression), [`{$request.body#/${kind}_url}`]);
  const [methods = {}] = Object.values(expression);
  const expected = kind === "postback" ? "post" : "get";
  assert.deepEqual(Object.keys(methods), [expected]);
  return methods[expected] ?? assert.fail();
}

function assertReceived(callback: DocumentedOperation, request: ReceivedRequest): void {
  const headers = (callback.parameters ?? []).map((field) => [field.name, field] as const);
  judge.assertHeadersFit(headers, new Map(Object.entries(request.headers)));
  const schema = callback.requestBody?.content["application/json"].schema;
  if (schema === undefined) {
    assert.equal(request.rawBody.length, 0);
    return;
  }
  assert.equal(request.headers["content-type"], "application/json");
  judge.assertFits(schema, JSON.parse(request.rawBody.toString()));
}

test("webhooks fit their callbacks, also while the secret rotates", async (t) => {
  const receiver = await startReceiver(t);
  const { daemon, document } = await startDocumented(t);
  const task = { postback_url: receiver.url("/a"), pingback_url: receiver.url("/b?$id") };
  const store = await openAdminStore(daemon.file);
  t.after(() => store.close());

  for (const isRotating of [false, true]) {
    if (isRotating) {
      await store.rotateSecret({ login: daemon.account.login, next: newWebhookSecret() });
    }
    await daemon.post([{ type: "echo", ...task }]);
    for (const request of [await receiver.next(), await receiver.next()]) {
      const kind = request.method === "POST" ? "postback" : "pingback";
      assertReceived(callbackOf(document, kind), request);
      assert.equal("x-signature-next" in request.headers, isRotating);
    }
  }
  const kinds = receiver.requests.map(({ method }) => method).toSorted();
  assert.deepEqual(kinds, ["GET", "GET", "POST", "POST"]);
});

const RETRIES = [
  ["", /within 10 seconds, [^]* 1 minute, 5 minutes and 15 minutes after /],
  [
    '[webhooks]\ntimeout = "1500ms"\nretry_after = ["60s", "25h", "2d", "90s"]',
    /within 1500 milliseconds, [^]* 1 minute, 25 hours, 2 days and 90 seconds after /,
  ],
  ['[webhooks]\ntimeout = "1s"\nretry_after = ["1h"]', /within 1 second, [^]* 1 hour after /],
  ["[webhooks]\nretry_after = []", /within 10 seconds, [^]* not retried\./],
] as const;

test("callbacks have the timeout and the delays of retries of the configuration", async (t) => {
  for (const [toml, pattern] of RETRIES) {
    const { document } = await startDocumented(t, toml);
    for (const kind of ["postback", "pingback"] as const) {
      const { description, responses } = callbackOf(document, kind);
      assert.match(description, pattern);
      const isFinal = /not retried/.test(responses["5XX"]?.description ?? "");
      assert.equal(isFinal, toml.endsWith("[]"));
    }
  }
});

test("the document is the same for all daemons, and is sent without a cookie", async (t) => {
  const first = await startTestDaemon(t);
  const second = await startTestDaemon(t, { toml: '[types.thumb]\nrunner = "echo"\n' });
  const { text } = await fetchDocument(first);

  assert.equal((await fetchDocument(second)).text, text);
  for (const { account, folder, url } of [first, second]) {
    for (const private_ of [account.login, account.key, account.secret, folder, url]) {
      assert(!text.includes(private_));
    }
  }
  const { headers } = await fetch(`${first.url}/openapi.json`);
  assert.equal(headers.get("set-cookie"), null);
  assert.equal(headers.get("cache-control"), "public, max-age=300");
});
