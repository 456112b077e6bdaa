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
import { fetchDocument, Judge, operationOf, placedOperations } from "./api-document.ts";
import type { ApiDocument, DocumentedOperation, PlacedOperation } from "./api-document.ts";
import { existingThings, requestsOf, send } from "./document-request.ts";
import type { DocumentedDaemon, DocumentedRequest } from "./document-request.ts";
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

test("a linter finds nothing to say about the document", async (t) => {
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
  // Nothing of this is used before a request comes.
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

test("an operation asks for credentials exactly where the document says so, by the schemes that it says", async (t) => {
  const { daemon, document } = await startDocumented(t);
  assert.deepEqual(Object.keys(document.components.securitySchemes), [
    "basic",
    "bearer",
    "worker",
    "metrics",
    "session",
  ]);

  for (const operation of placedOperations(document)) {
    const headers = { authorization: "", cookie: "", "x-requested-with": "" };
    const response = await send(daemon, { operation, headers });
    const isProtected = operation.security.length > 0;
    assert.equal(response.status === 401, isProtected, operation.operationId);
    const isWorkers = operation.path.startsWith("/v1/worker/");
    const isOperators = operation.path.startsWith("/v1/operator/");
    const keys = isOperators ? [] : [{ basic: [] }, { bearer: [] }];
    const own = operation.path === "/metrics" ? [{ metrics: [] }] : keys;
    const schemes = isWorkers ? [{ worker: [] }] : [...own, { session: [] }];
    if (isProtected) assert.deepEqual(operation.security, schemes);
    const challenge = response.headers.get("www-authenticate") ?? "";
    assert.equal(challenge.includes("Basic"), isProtected && !isWorkers);
    await judge.assertAnswerFits(operation, response);
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

test("every status code stands in the table of codes, and wherever it may be met", async (t) => {
  const { document } = await startDocumented(t);
  const all = placedOperations(document);
  const atRequests = new Set(all.flatMap(codesOf));
  const onTasks = new Set(all.flatMap(exampleTaskCodes));
  // An unknown path and a wrong method are no operation's; and one is of daemons for development.
  const nowhere = new Set([40500, 40800]);

  const table = String(document.components.schemas["StatusCode"]?.["description"]);
  for (const [code, { message, http }] of Object.entries(STATUS_TABLE)) {
    assert(table.includes(`| ${code} | ${message} |`), code);
    const isError = http !== null && http >= 400;
    const isMet = (isError ? atRequests : onTasks).has(Number(code));
    assert.equal(isMet, !nowhere.has(Number(code)), code);
  }
  assert(onTasks.has(40501));
  const tasks = JSON.stringify(document.components.schemas["Task"]);
  for (const code of onTasks) assert(tasks.includes(`| ${code} |`), String(code));
});

/** Says with which code each request was answered, after holding the answer against the document. */
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

// Nobody can have the credentials of these examples.
const REFUSED: ReadonlySet<string> = new Set(["signIn", "signInByLink"]);

// What stands for a cursor where the document can show none: a page gives it out, to one account.
const NO_CURSOR = "cursor=sample";

/** Enough for workers to claim: a claim that finds nothing waits, and here the clock stands still. */
async function queueForWorkers(daemon: DocumentedDaemon): Promise<void> {
  await daemon.post(Array.from({ length: 50 }, () => ({ type: EXAMPLE_TYPE, input: [1.5] })));
}

test("every request of the document works on things that exist, and its answer fits", async (t) => {
  const { daemon, document } = await startDocumented(t);
  await queueForWorkers(daemon);
  for (const operation of placedOperations(document)) {
    for (const request of requestsOf(operation)) {
      // What is cancelled must not have ended, and what is sent again must have.
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

test("what the document says of an answer holds for finished things and for unknown ones", async (t) => {
  const { daemon, document } = await startDocumented(t);
  await queueForWorkers(daemon);
  const codes = new Set<number | null>();
  for (const operation of placedOperations(document)) {
    const params = await existingThings(daemon, operation, "finished");
    const unknown = [...requestsOf(operation), ...headerRequestsOf(operation)];
    const requests = [...unknown.map((request) => ({ ...request, params })), ...unknown];
    for (const code of await codesAnswered(daemon, requests)) codes.add(code);
  }
  for (const code of [20000, 40400, 40403, 40902]) assert(codes.has(code), String(code));
});

/** A request for each header with each of its examples. */
function headerRequestsOf(operation: PlacedOperation): readonly DocumentedRequest[] {
  const headers = (operation.parameters ?? []).filter((field) => field.in === "header");
  return headers.flatMap(({ name, schema }) => {
    const examples = Array.isArray(schema["examples"]) ? schema["examples"] : [];
    assert(examples.length > 0, `${name} has no example`);
    const [request = { operation }] = requestsOf(operation);
    return examples.map((value) => ({ ...request, headers: { [name]: String(value) } }));
  });
}

/** The names of all response headers of the document, in lower case. */
function headerNames(document: ApiDocument): ReadonlySet<string> {
  const responses = placedOperations(document).flatMap((each) => Object.values(each.responses));
  const names = responses.flatMap(({ headers = {} }) => Object.keys(headers));
  return new Set(names.map((name) => name.toLowerCase()));
}

test("every response header of the document is met, and fits", async (t) => {
  const limits = "[limits]\nrequests_per_minute = 100000\n";
  const served = await startTestDaemon(t, { toml: `${limits}${TYPES}` });
  const token = await createTestWorker(served.file, [EXAMPLE_TYPE]);
  const daemon = { ...served, token, session: await createOperatorSession(served.file) };
  const { document } = await fetchDocument(daemon);
  const met = new Set<string>();
  const meet = async (request: DocumentedRequest): Promise<number> => {
    const response = await send(daemon, request);
    for (const name of response.headers.keys()) met.add(name);
    await judge.assertAnswerFits(request.operation, response);
    return response.status;
  };
  await queueForWorkers(daemon);

  for (const operation of placedOperations(document)) {
    const params = await existingThings(daemon, operation, "finished");
    const withHeaders = headerRequestsOf(operation);
    // The second one with the same Idempotency-Key is replayed.
    for (const request of [...requestsOf(operation), ...withHeaders, ...withHeaders])
      await meet({ ...request, params });
    await meet({ operation, query: "nonsense=1" });
    await meet({ operation, headers: { authorization: "Bearer x", cookie: "" } });
  }
  const { login, key } = daemon.account;
  const linked = { token: await createLink(daemon.file) };
  assert.equal(
    await meet({ operation: operationOf(document, "signIn"), body: { login, key } }),
    200,
  );
  assert.equal(await meet({ operation: operationOf(document, "signInByLink"), body: linked }), 200);
  assert.equal(await meet({ operation: operationOf(document, "signOut") }), 200);
  const access = {
    operation: operationOf(document, "requestAccess"),
    body: { email: "a@b.example" },
  };
  while ((await meet(access)) !== 429);

  assert.deepEqual(
    [...headerNames(document)].filter((name) => !met.has(name)),
    [],
  );
});

test("the cookie of a session that comes by HTTPS is as the document says", async (t) => {
  const { daemon, document } = await startDocumented(t, 'trusted_proxies = ["127.0.0.1"]\n');
  const headers = { "x-forwarded-for": "203.0.113.7", "x-forwarded-proto": "https" };
  const { login, key } = daemon.account;
  const operation = operationOf(document, "signIn");

  const response = await send(daemon, { operation, headers, body: { login, key } });

  assert.match(response.headers.get("set-cookie") ?? "", /^__Host-.*; Secure;/);
  await judge.assertAnswerFits(operation, response);
});

test("a second request with the ETag of the first is answered as the document says of 304", async (t) => {
  const { daemon, document } = await startDocumented(t);
  let checked = 0;
  for (const operation of placedOperations(document)) {
    const promised = operation.responses["304"] !== undefined;
    const params = await existingThings(daemon, operation, "finished");
    const tag = (await send(daemon, { operation, params })).headers.get("etag");
    assert.equal(tag !== null, promised, operation.operationId);
    if (tag === null) continue;
    const again = { operation, params, headers: { "if-none-match": tag } };
    const response = await send(daemon, again);
    assert.equal(response.status, 304);
    await judge.assertAnswerFits(operation, response);
    checked++;
  }
  assert(checked >= 5);
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

test("the answers to requests that cannot be served fit the document", async (t) => {
  const documented = await startDocumented(t, '[limits]\nbody = "1KiB"\nresult = "1KiB"\n');
  const lease = { id: TASK_ID, lease_id: "x" };
  const types = [EXAMPLE_TYPE];
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
    { id: "signIn", body: { login }, code: 40501 },
    { id: "signInByLink", body: { token }, code: 20000 },
    { id: "signOut", headers: elsewhere, code: 40301 },
    { id: "signOut", code: 20000 },
    { id: "getSession", code: 20000 },
    { id: "listTasks", query: "state=nonsense", code: 40000 },
    { id: "isAlive", query: "verbose", code: 40000 },
    { id: "getTask", params: { id: TASK_ID }, headers: { prefer: "wait=61" }, code: 40000 },
    { ...post, body: Array.from({ length: 101 }, () => ({})), code: 40006 },
    { id: "createKey", body: { label: 5, lable: "ci" }, code: 40501 },
    { id: "requestAccess", body: {}, code: 40501 },
    { id: "cancelTask", params: { id: TASK_ID }, body: { force: true }, code: 40501 },
    { ...post, text: "", code: 40502 },
    { ...post, body: [], code: 40502 },
    { ...post, body: [{}, 5], code: 40503 },
    { ...post, text: "{", code: 40503 },
    { id: "createKey", body: [], code: 40503 },
    { ...post, text: " ".repeat(1025), code: 41300 },
    { ...post, body: {}, headers: { "content-type": "text/plain" }, code: 41500 },
    { ...post, body: {}, headers: key, code: 20000 },
    { ...post, body: {}, headers: key, code: 20000 },
    { ...post, body: { tag: "other" }, headers: key, code: 42200 },
    { ...post, body: [{ tag: 5 }, { postback: "x" }, { postback_url: "ftp://x" }], code: 20000 },
    { id: "claimTasks", body: { types: ["echo"] }, code: 40301 },
    { id: "claimTasks", body: { types, max: 0 }, code: 40501 },
    { id: "claimTasks", text: " ".repeat(1025), code: 41300 },
    { id: "heartbeatLeases", body: { leases: [5], progress: 5 }, code: 40501 },
    { id: "heartbeatLeases", body: { leases: [null, lease, {}] }, code: 20000 },
    { id: "completeTasks", body: { tasks: [] }, code: 40501 },
    { id: "completeTasks", text: " ".repeat(4097), code: 41300 },
    { id: "completeTasks", body: { tasks: [null, lease, { id: 5 }] }, code: 20000 },
    { id: "failTasks", body: { tasks: [{ ...lease, message: 5 }] }, code: 20000 },
    { id: "releaseLeases", body: { tasks: [lease, "x"] }, code: 20000 },
    { id: "revokeKey", params: { key_id: "key_" }, code: 40400 },
    { id: "getTask", params: { id: TASK_ID }, code: 40401 },
    { id: "getTask", params: { id: "x" }, code: 40401 },
    { id: "cancelTask", params: { id: TASK_ID }, code: 40401 },
    ...Array.from({ length: 19 }, () => ({ id: "createKey", code: 20000 })),
    { id: "createKey", code: 40910 },
  ]);
});

test("the answers to refused credentials fit the document", async (t) => {
  const documented = await startDocumented(t);
  const { daemon } = documented;
  const store = await openAdminStore(daemon.file);
  t.after(() => store.close());
  const { login } = daemon.account;
  const placed = placedOperations(documented.document);
  const idsOf = (scheme: string): readonly string[] =>
    placed.flatMap(({ operationId, security }) =>
      security.some((each) => scheme in each) ? [operationId] : [],
    );
  const assertAll = (
    scheme: "bearer" | "worker",
    code: number,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<void> =>
    assertAnswered(
      documented,
      idsOf(scheme).map((id) => ({ id, code, headers })),
    );

  const wrong = { authorization: "Bearer nonsense" };
  await assertAll("bearer", 40100, wrong);
  await assertAll("worker", 40100, wrong);
  await store.revokeWorker({ name: "press", revokedAt: NOW });
  await assertAll("worker", 40101);
  await store.setAccountDisabled({ login, disabledAt: NOW });
  await assertAll("bearer", 40102);
  for (const { keyId } of (await store.listKeys(login)) ?? []) {
    await store.revokeKey({ keyId, accountId: null, revokedAt: NOW });
  }
  await assertAll("bearer", 40101);
});

test("the answers to too many requests, and those before, fit the document", async (t) => {
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

test("the answers of a daemon that is full, or behind a proxy without TLS, fit the document", async (t) => {
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

test("webhooks are as their callbacks say, also while the secret rotates", async (t) => {
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

for (const [toml, sentences] of [
  [
    "",
    "within 10 seconds, name resolution included. Anything else, a redirect too, is a failure. " +
      "It is tried again 1 minute, 5 minutes and 15 minutes after the failure before; then it is given up.",
  ],
  [
    '[webhooks]\ntimeout = "1500ms"\nretry_after = ["60s", "25h", "2d", "90s"]',
    "within 1500 milliseconds, name resolution included. Anything else, a redirect too, is a failure. " +
      "It is tried again 1 minute, 25 hours, 2 days and 90 seconds after the failure before; then it is given up.",
  ],
  [
    '[webhooks]\ntimeout = "1s"\nretry_after = ["1h"]',
    "within 1 second, name resolution included. Anything else, a redirect too, is a failure. " +
      "It is tried again 1 hour after the failure; then it is given up.",
  ],
  [
    "[webhooks]\nretry_after = []",
    "within 10 seconds, name resolution included. Anything else, a redirect too, is a failure. " +
      "It is not tried again.",
  ],
] as const) {
  test(`the callbacks say when webhooks are tried again: ${toml || "by default"}`, async (t) => {
    const { document } = await startDocumented(t, toml);

    for (const kind of ["postback", "pingback"] as const) {
      const { description, responses } = callbackOf(document, kind);
      assert(description.includes(sentences), description);
      assert.equal(
        responses["5XX"]?.description,
        toml.endsWith("[]")
          ? "Failed; it is not tried again."
          : "Failed; it is tried again while there are retries.",
      );
    }
  });
}

test("the document says nothing of the daemon that serves it, and no cookie goes with it", async (t) => {
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
