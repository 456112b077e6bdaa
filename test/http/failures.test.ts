import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test, type TestContext } from "node:test";

import { newSignInToken } from "../../src/domain/account/credentials.ts";
import { StoreError, type StoreErrorKind } from "../../src/store/store.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { exchange, headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import type { RawRequest, RawResponse } from "../helpers/raw-http.ts";
import { ask, bearer, complaints, JSON_TYPE, posting, TASK_POST, taskGet } from "./answer.ts";
import { TASKS_READY, toAnswer, type Answer } from "./answer.ts";
import { FINISHED, SOUND, startRing, type Ring, type UsedStore } from "./ring.ts";
import { FROM_PAGE, OPERATOR, SESSION, operatorPost, pagePost } from "./session-requests.ts";
import { workerPost } from "./worker-requests.ts";

const KEYS = "/v1/appendix/keys";
const ACCESS = "/v1/access_requests";

const REDELIVERIES = "/v1/redeliveries";
const CANCEL_MANY = "/v1/tasks/cancel";

/** A request for each method of the store that needs it. */
function requestsOf(ring: Ring): readonly (readonly [keyof UsedStore, RawRequest])[] {
  const headers = [bearer(ring)];
  const json = [...headers, JSON_TYPE];
  const post = posting(ring, '[{"input":"PRIVATE"}]');
  const session = [ring.cookie, ...FROM_PAGE];
  const access = '{"email":"PRIVATE@example.org"}';
  return [
    ["findWorkerHolder", claiming(ring)],
    ["findKeyHolder", { target: `${TASKS_READY}?limit=1`, headers }],
    ["insertTasks", post],
    ["findTask", { target: taskGet(FINISHED.id, "?collect=false"), headers }],
    ["collectTask", { target: taskGet(FINISHED.id), headers }],
    ["listReady", { target: `${TASKS_READY}?tag=PRIVATE`, headers }],
    ["listTasks", { target: "/v1/tasks?tag=PRIVATE", headers }],
    ["listDeliveries", { target: `/v1/tasks/deliveries/${FINISHED.id}`, headers }],
    ["listAttempts", { target: "/v1/tasks/attempts", headers }],
    ["redeliver", { method: "POST", target: `/v1/tasks/redeliver/${FINISHED.id}`, headers }],
    ["cancelTask", { method: "POST", target: `/v1/tasks/task_cancel/${FINISHED.id}`, headers }],
    ["cancelTasks", { method: "POST", target: CANCEL_MANY, headers: json, body: "{}" }],
    ["findKeptAnswer", { ...post, headers: [...(post.headers ?? []), "Idempotency-Key: k1"] }],
    ...searchRequests(headers),
    ...statsRequests(headers),
    ["createKey", { method: "POST", target: KEYS, headers: json, body: '{"label":"PRIVATE"}' }],
    ["revokeKey", { method: "DELETE", target: `${KEYS}/key_${"0".repeat(32)}`, headers }],
    ["findAccountData", { target: "/v1/appendix/user_data", headers }],
    ["insertAccessRequest", { method: "POST", target: ACCESS, headers: json, body: access }],
    ["findSession", { target: SESSION, headers: session }],
    ["createSession", pagePost(SESSION, { login: "tester", key: ring.account.key })],
    ["noteAudit", pagePost(SESSION, { login: "PRIVATE", key: ring.account.key })],
    ["endSession", { method: "DELETE", target: SESSION, headers: session }],
    ...operatorRequests(session),
    ["useSignInLink", pagePost(`${SESSION}/link`, { token: newSignInToken().secret })],
  ];
}

function searchRequests(
  headers: readonly string[],
): readonly (readonly [keyof UsedStore, RawRequest])[] {
  const json = [...headers, JSON_TYPE];
  const body = '{"since":"2026-01-01T00:00:00Z","host":"PRIVATE"}';
  return [
    ["searchTasks", { target: "/v1/tasks/search?q=PRIVATE", headers }],
    ["listDeliveryPauses", { target: `/v1/tasks/timeline/${FINISHED.id}`, headers }],
    ["findTimeline", { target: `/v1/tasks/timeline/${FINISHED.id}`, headers }],
    [
      "countEndedDeliveriesStep",
      { method: "POST", target: `${REDELIVERIES}/preview`, headers: json, body },
    ],
    ["orderRedelivery", { method: "POST", target: REDELIVERIES, headers: json, body }],
    ["listRedeliveryOrders", { target: REDELIVERIES, headers }],
    [
      "cancelRedeliveryOrder",
      { method: "DELETE", target: `${REDELIVERIES}/${FINISHED.id}`, headers },
    ],
  ];
}

function statsRequests(
  headers: readonly string[],
): readonly (readonly [keyof UsedStore, RawRequest])[] {
  const overview = { target: "/v1/stats/overview", headers };
  return [
    ["countWork", overview],
    ["findOldestWaiting", overview],
    ["findTraffic", { target: "/v1/stats/series", headers }],
    ["listHostTraffic", { target: "/v1/stats/hosts", headers }],
  ];
}

function operatorRequests(
  credentials: readonly string[],
): readonly (readonly [keyof UsedStore, RawRequest])[] {
  const get = (path: string): RawRequest => ({ target: OPERATOR + path, headers: credentials });
  const post = (path: string, body?: unknown): RawRequest =>
    operatorPost(path, { body, credentials });
  const body = { login: "PRIVATE" };
  return [
    ["listAccountOverviews", get("/accounts?q=PRIVATE")],
    ["createAccount", post("/accounts", body)],
    ["setAccountDisabled", post("/accounts/disable/alice")],
    ["findAccount", post("/accounts/enable/alice")],
    ["findSuspendedWork", post("/accounts/disable/disabled")],
    ["rotateSecret", post("/accounts/rotate/alice")],
    ["finishRotation", post("/accounts/finish/alice")],
    ["listAccessRequests", get("/access_requests")],
    ["countPendingRequests", { target: "/v1/stats/overview", headers: credentials }],
    ["approveAccessRequest", post(`/access_requests/approve/${FINISHED.id}`, body)],
    ["denyAccessRequest", post(`/access_requests/deny/${FINISHED.id}`)],
    ["listTypeWork", get("/runners")],
    ["listWorkers", get("/runners")],
    ["listNodes", get("/nodes")],
    ["pauseDeliveries", post("/delivery_pauses", { host: "PRIVATE" })],
    ["resumeDeliveries", post("/delivery_pauses/resume", { host: "PRIVATE" })],
    ["countScheduled", post("/delivery_pauses", {})],
    ["listAudit", get("/audit")],
    ["listKeys", get("/audit?account=alice")],
    ["findDatabaseHealth", get("/nodes")],
  ];
}

function claiming({ token }: Pick<Ring, "token">): RawRequest {
  return workerPost({ token }, { operation: "claim", body: { types: ["print"] } });
}

const METHODS = Object.keys(SOUND) as (keyof UsedStore)[];

/** A response does not need these writes. */
const UNNEEDED: ReadonlySet<keyof UsedStore> = new Set(["collectTask", "noteAudit"]);
const NEEDED = METHODS.filter((method) => !UNNEEDED.has(method));

function failing(method: keyof UsedStore, error: unknown): Partial<UsedStore> {
  return { [method]: () => Promise.reject(error) };
}

/** One HTTP ring on a store of which the test replaces methods. */
async function startBroken(t: TestContext) {
  let broken: Partial<UsedStore> = {};
  const methods = METHODS.map((method) => {
    const call = (...values: readonly unknown[]): unknown => {
      const given = (broken[method] ?? SOUND[method]) as (...all: readonly unknown[]) => unknown;
      return given(...values);
    };
    return [method, call];
  });
  const ring = await startRing(t, { store: Object.fromEntries(methods) as UsedStore });
  const requests = requestsOf(ring);
  return {
    ...{ url: ring.url, ring, logged: ring.logged, woken: ring.woken },
    /** Replaces methods and sends a request that needs `method`. */
    async ask(method: keyof UsedStore, replaced: Partial<UsedStore>): Promise<Answer> {
      broken = replaced;
      ring.logged.length = 0;
      const request = requests.find(([each]) => each === method)?.[1] ?? assert.fail(method);
      return ask(ring.url, request);
    },
  };
}

const CANNOT: readonly (readonly [StoreErrorKind, number, string | null])[] = [
  ["failed", 50300, "1"],
  ["busy", 50300, "1"],
  ["overloaded", 50300, "1"],
  ["unreachable", 50300, "1"],
  ["closed", 50300, "1"],
  ["full", 50700, null],
];

test("a store error is 50300 or 50700 for every operation, without its reason", async (t) => {
  const broken = await startBroken(t);
  for (const [kind, code, retryAfter] of CANNOT) {
    for (const method of NEEDED) {
      const error = new StoreError(kind, "SECRET: /var/lib/postbackd.db");
      const got = await broken.ask(method, failing(method, error));
      assert.equal(got.code, code, `${kind} ${method}`);
      assert.equal(headerOf(got.response, "retry-after"), retryAfter);
      assert.deepEqual(Object.keys(got.body), ["status_code", "status_message"]);
      assert.deepEqual(broken.woken, []);
    }
  }
  assert.equal((await ask(broken.url, {})).response.status, 200);
});

test("a write with an unknown outcome is 50300 with advice to use an Idempotency-Key", async (t) => {
  const broken = await startBroken(t);
  for (const method of NEEDED) {
    const error = new StoreError("unknown", "SECRET: /var/lib/postbackd.db");
    const got = await broken.ask(method, failing(method, error));
    assert.equal(got.code, 50300, method);
    assert.equal(headerOf(got.response, "retry-after"), "1");
    const [finding, ...others] = got.body.errors ?? [];
    assert.match(finding?.detail ?? "", /Idempotency-Key/);
    assert.deepEqual([finding?.pointer, others], ["", []]);
    assert.doesNotMatch(got.response.body.toString(), /SECRET/);
  }
});

test("a result is returned although the store cannot mark its task as collected", async (t) => {
  const broken = await startBroken(t);
  for (const [kind] of CANNOT) {
    const error = new StoreError(kind, "SECRET");
    const got = await broken.ask("collectTask", failing("collectTask", error));
    assert.deepEqual([got.code, got.body.tasks?.[0]?.id], [20000, FINISHED.id], kind);
  }
});

clusterTest("a task that ends when its waiting client disconnects is not collected", async (t) => {
  const looks: string[] = [];
  const looked = Promise.withResolvers<void>();
  const ring = await startRing(t, {
    store: {
      async findTask() {
        looks.push("look");
        looked.resolve();
        // The second read finds an ended task.
        const task = looks.length > 1 ? FINISHED : { ...FINISHED, state: "running" as const };
        return { task, isReady: looks.length > 1 };
      },
      async collectTask() {
        looks.push("collect");
      },
    },
  });
  const connection = await openRaw(t, ring.url);
  const headers = [bearer(ring), "Prefer: wait=60"];
  connection.send(toBytes({ target: taskGet(FINISHED.id), headers }));
  await looked.promise;
  connection.reset();
  // At the third response the server has noticed the reset.
  for (let i = 0; i < 3; i++) await exchange(ring.url, { target: "/livez" });

  assert.ok(!looks.includes("collect"));
  assert.deepEqual(ring.logged, []);
});

test("an unexpected error is 50000, leaks nothing, and is logged once with the request id", async (t) => {
  const errors: readonly unknown[] = [
    new TypeError("SECRET"),
    Object.assign(new Error("SECRET"), { status: 404, statusCode: 404, code: 40401 }),
    Object.assign(new Error("SECRET"), { statusText: "SECRET", headers: { "x-secret": "SECRET" } }),
    ...["SECRET", { message: "SECRET", status: 200 }, null, undefined, 404, Symbol("SECRET")],
  ];
  const broken = await startBroken(t);
  for (const error of errors) {
    const got = await broken.ask("listReady", failing("listReady", error));
    assert.equal(got.response.status, 500);
    assert.deepEqual(got.body, { status_code: 50000, status_message: "Internal Error." });
    assert.doesNotMatch(JSON.stringify(got.response.headers), /secret/i);

    const [entry, ...others] = broken.logged;
    assert.deepEqual([entry?.level, others], ["error", []]);
    const { err, ...facts } = entry?.facts ?? {};
    assert.equal(err, error);
    assert.deepEqual(facts, { requestId: got.requestId, method: "GET", path: TASKS_READY });
  }
});

test("an error thrown by any method of the store is 50000", async (t) => {
  const broken = await startBroken(t);
  const thrown = (): never => {
    throw new Error("SECRET");
  };
  for (const method of METHODS) {
    const { code, response } = await broken.ask(method, { [method]: thrown });
    assert.equal(code, 50000, method);
    assert.doesNotMatch(response.body.toString(), /SECRET|PRIVATE/);
    assert.equal(broken.logged.length, 1);
    assert.doesNotMatch(JSON.stringify(broken.logged), /PRIVATE|whsec/);
  }
  assert.equal((await ask(broken.url, {})).response.status, 200);
});

test("an error of a readiness check is 50000 and affects no other request", async (t) => {
  const broken = () => {
    throw new Error("SECRET");
  };
  const ring = await startRing(t, { notReadyReason: broken });
  for (const method of ["GET", "HEAD"]) {
    assert.equal((await ask(ring.url, { method, target: "/readyz" })).response.status, 500);
  }
  assert.equal((await ask(ring.url, { target: "/livez" })).response.status, 200);
  assert.equal(ring.logged.length, 2);
});

test("stored tasks wake their type, tasks that were not stored wake nothing", async (t) => {
  const full = await startRing(t, {
    store: failing("insertTasks", new StoreError("full", "full")),
  });
  await ask(full.url, posting(full, "[{},{}]"));
  assert.deepEqual(full.woken, []);
  const sound = await startRing(t);
  await ask(sound.url, posting(sound, "[{},{}]"));
  assert.deepEqual(sound.woken, ["echo"]);
  await ask(sound.url, posting(sound, '[{"nonsense":1}]'));
  assert.deepEqual(sound.woken, ["echo"]);
  const insertTasks = async () => ({ kind: "inserted", started: [1, 2] }) as const;
  const idle = await startRing(t, { store: { insertTasks } });
  await ask(idle.url, posting(idle, "[{},{}]"));
  assert.deepEqual(idle.woken, []);
  await ask(idle.url, posting(idle, "[{},{},{}]"));
  assert.deepEqual(idle.woken, ["echo"]);
});

test("/readyz has the reason or the warnings, and /livez stays ok", async (t) => {
  let reason: string | null = "the database cannot be written";
  const databaseWarnings: string[] = [];
  const ring = await startRing(t, { notReadyReason: () => reason, databaseWarnings });
  const readyz = async (): Promise<readonly [number, string]> => {
    const { response } = await ask(ring.url, { target: "/readyz" });
    return [response.status, response.body.toString()];
  };
  assert.deepEqual(await readyz(), [503, JSON.stringify({ status: "unavailable", reason })]);
  const head = await ask(ring.url, { method: "HEAD", target: "/readyz" });
  assert.equal(head.response.status, 503);
  assert.equal((await ask(ring.url, { target: "/livez" })).response.status, 200);

  reason = null;
  assert.deepEqual(await readyz(), [200, '{"status":"ok"}']);
  databaseWarnings.push("claims get slower");
  assert.deepEqual(await readyz(), [200, '{"status":"ok","warnings":["claims get slower"]}']);
});

clusterTest(
  "a daemon that stops refuses posts with 50300 and Retry-After, and reads go on",
  async (t) => {
    const ring = await startRing(t, { isAccepting: false });
    const posted = await ask(ring.url, posting(ring, "[{}]"));
    assert.equal(posted.code, 50300);
    assert.equal(headerOf(posted.response, "retry-after"), "5");
    assert.equal((await ask(ring.url, posting(ring, "[1]"))).code, 40503);
    const headers = [bearer(ring)];
    assert.equal((await ask(ring.url, { target: TASKS_READY, headers })).code, 20000);
    assert.equal((await ask(ring.url, { target: taskGet(FINISHED.id), headers })).code, 20000);
    assert.deepEqual(ring.woken, []);
  },
);

test("a daemon without disk space refuses posts with 50700, and reads and cancels go on", async (t) => {
  const ring = await startRing(t, { hasRoom: false });
  const posted = await ask(ring.url, posting(ring, "[{}]"));
  assert.equal(posted.code, 50700);
  assert.equal(headerOf(posted.response, "retry-after"), null);
  assert.equal((await ask(ring.url, posting(ring, "[1]"))).code, 40503);
  assert.deepEqual(ring.woken, []);
  const headers = [bearer(ring)];
  assert.equal((await ask(ring.url, { target: "/v1/tasks", headers })).code, 20000);
  assert.equal((await ask(ring.url, { target: taskGet(FINISHED.id), headers })).code, 20000);
  const target = `/v1/tasks/task_cancel/${FINISHED.id}`;
  assert.equal((await ask(ring.url, { method: "POST", target, headers })).code, 20000);
});

test("a stored response is replayed while posts are refused", async (t) => {
  const body = '[{"input":1}]';
  const kept = { bodyHash: hash("sha256", body), answerText: '{"status_code":20000,"tasks":[]}' };
  const overloaded = new StoreError("overloaded", "the backlog is full");
  const store = { ...failing("insertTasks", overloaded), findKeptAnswer: async () => kept };
  const states = [{}, { isAccepting: false }, { hasRoom: false }];
  for (const state of states) {
    const ring = await startRing(t, { store, ...state });
    const post = (text: string): Promise<RawResponse> => {
      const { headers = [], ...rest } = posting(ring, text);
      return exchange(ring.url, { ...rest, headers: [...headers, "Idempotency-Key: k1"] });
    };
    const response = await post(body);
    assert.deepEqual([response.status, response.body.toString()], [200, kept.answerText]);
    assert.equal(headerOf(response, "idempotent-replayed"), "true");
    assert.equal((await post("[{}]")).status, 422);
    assert.deepEqual(ring.woken, []);
    // Without its key it is a post like any other.
    assert.ok([50300, 50700].includes((await ask(ring.url, posting(ring, body))).code ?? 0));
  }
});

test("a stop completes a request in progress and takes no task from it", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  const headers = [bearer(daemon), JSON_TYPE, "Content-Length: 4"];
  connection.send(toBytes({ method: "POST", target: TASK_POST, headers, body: "[{" }));
  // After a response on another connection the daemon has read the head.
  await ask(daemon.url, {});
  const stopped = daemon.daemon.stop();
  connection.send("}]");

  const { code, response } = toAnswer(await connection.next());
  assert.equal(code, 50300);
  assert.equal(headerOf(response, "retry-after"), "5");
  await connection.closed();
  await stopped;
  await assert.rejects(ask(daemon.url, {}), { code: "ECONNREFUSED" });
  assert.deepEqual(complaints(daemon), []);
});
