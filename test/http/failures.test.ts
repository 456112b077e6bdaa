import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test } from "node:test";

import { newSignInToken } from "../../src/domain/account/credentials.ts";
import { StoreError, type StoreErrorKind } from "../../src/store/store.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { exchange, headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import type { RawRequest, RawResponse } from "../helpers/raw-http.ts";
import { ask, bearer, complaints, JSON_TYPE, posting, TASK_POST, taskGet } from "./answer.ts";
import { TASKS_READY, toAnswer } from "./answer.ts";
import { OPERATOR, operatorPost } from "./operator-requests.ts";
import { FINISHED, SOUND, startRing, type Ring, type UsedStore } from "./ring.ts";
import { FROM_PAGE, pagePost, SESSION } from "./session-requests.ts";
import { workerPost } from "./worker-requests.ts";

const KEYS = "/v1/appendix/keys";
const ACCESS = "/v1/access_requests";

const REDELIVERIES = "/v1/redeliveries";

/** A request for each method of the store, that cannot be served without it. */
const CANCEL_MANY = "/v1/tasks/cancel";

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

function failing(method: keyof UsedStore, error: unknown): Partial<UsedStore> {
  return { [method]: () => Promise.reject(error) };
}

const CANNOT: readonly (readonly [StoreErrorKind, number, string | null])[] = [
  ["failed", 50300, "1"],
  ["busy", 50300, "1"],
  ["overloaded", 50300, "1"],
  ["unreachable", 50300, "1"],
  ["closed", 50300, "1"],
  ["full", 50700, null],
];

/** Writes beside an answer, which it does not wait for or goes without. */
const UNHEARD: ReadonlySet<keyof UsedStore> = new Set(["collectTask", "noteAudit"]);

for (const [kind, code, retryAfter] of CANNOT) {
  test(`a store that is ${kind} is answered ${code} by every operation, and says nothing of why`, async (t) => {
    const methods = Object.keys(SOUND) as (keyof UsedStore)[];
    // What collecting cannot write is no reason to keep a result back: see the next test.
    for (const method of methods.filter((each) => !UNHEARD.has(each))) {
      const error = new StoreError(kind, "SECRET: /var/lib/postbackd.db");
      const ring = await startRing(t, { store: failing(method, error) });
      const request = requestsOf(ring).find(([each]) => each === method)?.[1] ?? assert.fail();
      const got = await ask(ring.url, request);
      assert.equal(got.code, code, method);
      assert.equal(headerOf(got.response, "retry-after"), retryAfter);
      assert.deepEqual(Object.keys(got.body), ["status_code", "status_message"]);
      assert.deepEqual(ring.woken, []);
      assert.equal((await ask(ring.url, {})).response.status, 200);
    }
  });
}

test("what may have happened although the store broke off is never told as undone", async (t) => {
  const methods = Object.keys(SOUND) as (keyof UsedStore)[];
  for (const method of methods.filter((each) => !UNHEARD.has(each))) {
    const error = new StoreError("unknown", "SECRET: /var/lib/postbackd.db");
    const ring = await startRing(t, { store: failing(method, error) });
    const request = requestsOf(ring).find(([each]) => each === method)?.[1] ?? assert.fail();
    const got = await ask(ring.url, request);
    assert.equal(got.code, 50300, method);
    assert.equal(headerOf(got.response, "retry-after"), "1");
    const [finding, ...others] = got.body.errors ?? [];
    assert.match(finding?.detail ?? "", /not known whether.*Idempotency-Key/);
    assert.equal(finding?.pointer, "");
    assert.deepEqual(others, []);
    assert.doesNotMatch(got.response.body.toString(), /SECRET/);
  }
});

test("a result is given out although the store cannot take its task out of the ready ones", async (t) => {
  for (const [kind] of CANNOT) {
    const store = failing("collectTask", new StoreError(kind, "SECRET"));
    const ring = await startRing(t, { store });
    const got = await ask(ring.url, { target: taskGet(FINISHED.id), headers: [bearer(ring)] });
    assert.equal(got.code, 20000);
    assert.equal(got.body.tasks?.[0]?.id, FINISHED.id);
  }
});

clusterTest(
  "a task that ends at the moment when its waiting client hangs up is not collected",
  async (t) => {
    const looks: string[] = [];
    const looked = Promise.withResolvers<void>();
    const ring = await startRing(t, {
      store: {
        async findTask() {
          looks.push("look");
          looked.resolve();
          // The second look would find it ended.
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
    // By the third answer the server has seen it.
    for (let i = 0; i < 3; i++) await exchange(ring.url, { target: "/livez" });

    assert.ok(!looks.includes("collect"));
    assert.deepEqual(ring.logged, []);
  },
);

test("an unexpected error is 50000, leaks nothing, and is logged once with the request's id", async (t) => {
  const errors: readonly unknown[] = [
    new Error("SECRET"),
    new TypeError("SECRET"),
    Object.assign(new Error("SECRET"), { status: 404, statusCode: 404, code: 40401 }),
    Object.assign(new Error("SECRET"), { statusText: "SECRET", headers: { "x-secret": "SECRET" } }),
    "SECRET",
    { message: "SECRET", status: 200 },
    null,
    undefined,
    404,
    Symbol("SECRET"),
  ];
  for (const error of errors) {
    const ring = await startRing(t, { store: failing("listReady", error) });
    const target = `${TASKS_READY}?tag=PRIVATE`;
    const got = await ask(ring.url, { target, headers: [bearer(ring)] });
    assert.equal(got.response.status, 500);
    assert.deepEqual(got.body, { status_code: 50000, status_message: "Internal Error." });
    assert.doesNotMatch(JSON.stringify(got.response.headers), /secret/i);

    const [entry, ...others] = ring.logged;
    assert.deepEqual(others, []);
    assert.equal(entry?.level, "error");
    const { err, ...facts } = entry.facts;
    assert.equal(err, error);
    assert.deepEqual(facts, { requestId: got.requestId, method: "GET", path: TASKS_READY });
  }
});

test("an unexpected error in any method of the store is 50000, also where it is thrown at once", async (t) => {
  for (const method of Object.keys(SOUND) as (keyof UsedStore)[]) {
    const broken = () => {
      throw new Error("SECRET");
    };
    const ring = await startRing(t, { store: { [method]: broken } });
    const request = requestsOf(ring).find(([each]) => each === method)?.[1] ?? assert.fail();
    const { code, response } = await ask(ring.url, request);
    assert.equal(code, 50000, method);
    assert.doesNotMatch(response.body.toString(), /SECRET|PRIVATE/);
    assert.equal(ring.logged.length, 1);
    assert.doesNotMatch(JSON.stringify(ring.logged), /PRIVATE|whsec/);
    assert.equal((await ask(ring.url, {})).response.status, 200);
  }
});

test("an error in what /readyz asks is 50000 too, and takes nothing else with it", async (t) => {
  const broken = () => {
    throw new Error("SECRET");
  };
  const ring = await startRing(t, { notReadyReason: broken });
  assert.equal((await ask(ring.url, { target: "/readyz" })).code, 50000);
  const head = await ask(ring.url, { method: "HEAD", target: "/readyz" });
  assert.equal(head.response.status, 500);
  assert.equal((await ask(ring.url, { target: "/livez" })).response.status, 200);
  assert.equal(ring.logged.length, 2);
});

test("tasks that were not stored are not run, and tasks that were stored are", async (t) => {
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
});

test("/readyz says why not, and /livez does not care", async (t) => {
  const reasons = ["the database cannot be written", "starting or stopping"];
  for (const reason of reasons) {
    const ring = await startRing(t, { notReadyReason: () => reason });
    const { response } = await ask(ring.url, { target: "/readyz" });
    assert.equal(response.status, 503);
    assert.deepEqual(JSON.parse(response.body.toString()), { status: "unavailable", reason });
    const head = await ask(ring.url, { method: "HEAD", target: "/readyz" });
    assert.equal(head.response.status, 503);
    assert.equal((await ask(ring.url, { target: "/livez" })).response.status, 200);
  }
  const ring = await startRing(t);
  assert.equal((await ask(ring.url, { target: "/readyz" })).response.status, 200);
});

test("/readyz stays ok with what the operator should mend, and says nothing of it where there is nothing", async (t) => {
  const bodyOf = async (databaseWarnings: readonly string[]) => {
    const { response } = await ask((await startRing(t, { databaseWarnings })).url, {
      target: "/readyz",
    });
    assert.equal(response.status, 200);
    return response.body.toString();
  };
  assert.equal(await bodyOf([]), '{"status":"ok"}');
  assert.equal(
    await bodyOf(["claims get slower"]),
    '{"status":"ok","warnings":["claims get slower"]}',
  );
});

clusterTest(
  "while it stops, nothing is taken in: 50300 with Retry-After, and reading goes on",
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

test("without room nothing is taken in: 50700, and reading and cancelling go on", async (t) => {
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

test("an answer that is kept for an Idempotency-Key is repeated, whatever keeps new tasks out", async (t) => {
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

test("a stop lets a request that is under way have its answer, and takes no task from it", async (t) => {
  const daemon = await startTestDaemon(t);
  const connection = await openRaw(t, daemon.url);
  const headers = [bearer(daemon), JSON_TYPE, "Content-Length: 4"];
  connection.send(toBytes({ method: "POST", target: TASK_POST, headers, body: "[{" }));
  // The daemon has the head of it once it has answered the next one on another connection.
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
