import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import Database from "better-sqlite3";

import type {
  ObservedAttempt,
  ObservedCommit,
  ObservedEnd,
  ObservedPost,
  ObservedRefusal,
  ObservedRequest,
  ObservedRun,
  ObservedStart,
  Observer,
} from "../../src/domain/observer.ts";
import { requestHooks } from "../../src/http/access-log.ts";
import { type BatchReply, observedTransport } from "../../src/store/common/batch.ts";
import { startWithWorker } from "../flow/worker-client.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { createGate, startReceiver, type Receiver } from "../helpers/receiver.ts";

const host = "127.0.0.1";
const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const TICK = 1000;
const MINUTE = 60_000;
const LEASE = 30_000;
const PRINT = '[types.print]\nrunner = "worker"\n';

const callType = (service: Receiver, more = ""): string =>
  `[types.call]\nurl = "${service.url("/")}"\n${more}\n`;

/** An observer that records every call. */
class Record implements Observer {
  readonly requests: ObservedRequest[] = [];
  readonly commits: ObservedCommit[] = [];
  readonly runs: ObservedRun[] = [];
  readonly attempts: ObservedAttempt[] = [];
  readonly posts: ObservedPost[] = [];
  readonly starts: ObservedStart[] = [];
  readonly ends: ObservedEnd[] = [];
  readonly refusals: ObservedRefusal[] = [];

  request(request: ObservedRequest): void {
    this.requests.push(request);
  }

  commit(commit: ObservedCommit): void {
    this.commits.push(commit);
  }

  run(run: ObservedRun): void {
    this.runs.push(run);
  }

  attempt(attempt: ObservedAttempt): void {
    this.attempts.push(attempt);
  }

  post(post: ObservedPost): void {
    this.posts.push(post);
  }

  start(start: ObservedStart): void {
    this.starts.push(start);
  }

  end(end: ObservedEnd): void {
    this.ends.push(end);
  }

  refusal(refusal: ObservedRefusal): void {
    this.refusals.push(refusal);
  }
}

async function pass(daemon: TestDaemon, clock: FakeClock, ms: number): Promise<void> {
  clock.advance(ms);
  await daemon.daemon.idle();
}

/** A service and a receiver, each of which responds when its gate is opened. */
async function startHeld(t: TestContext) {
  const [serviceGate, receiverGate] = [createGate(), createGate()];
  const held = (until: Promise<unknown>) =>
    ({ kind: "held", until, reply: { kind: "status", status: 200, body: "1" } }) as const;
  const service = await startReceiver(t, { reply: held(serviceGate.opened) });
  const receiver = await startReceiver(t, { reply: held(receiverGate.opened) });
  return { service, receiver, serviceGate, receiverGate };
}

test("a request, a run and an attempt are observed once each, with their duration", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const { service, receiver, serviceGate, receiverGate } = await startHeld(t);
  const observer = new Record();
  const daemon = await startTestDaemon(t, { clock, observer, toml: callType(service) });

  const posted = await daemon.post({ type: "call", postback_url: receiver.url("/hook?x=1") });
  const id = posted.tasks[0]?.id ?? assert.fail();
  assert.ok(observer.commits.length > 0, "what was answered was committed before");
  await service.next();
  const timers = clock.pending().length;
  const waiting = daemon.call(`/v1/tasks/task_get/${id}`, { headers: { prefer: "wait=60" } });
  await clock.whenPending(timers + 1);
  clock.advance(250);
  serviceGate.open();
  assert.equal((await waiting).status, 200);
  await receiver.next();
  clock.advance(40);
  receiverGate.open();
  await daemon.daemon.idle();

  assert.deepEqual(observer.requests, [
    { operation: "POST /v1/tasks/task_post", status: 200, ms: 0 },
    { operation: "GET /v1/tasks/task_get/:id", status: 200, ms: 250 },
  ]);
  assert.deepEqual(observer.runs, [{ type: "call", outcome: "completed", ms: 250 }]);
  assert.deepEqual(observer.attempts, [
    { kind: "postback", host, outcome: "delivered", ms: 40, lagMs: 0, state: "delivered" },
  ]);
});

test("a task is observed when it is posted, started and ended, and so are failures and retries", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const failure = { kind: "status", status: 500 } as const;
  const service = await startReceiver(t, { reply: { kind: "status", status: 200, body: "1" } });
  const receiver = await startReceiver(t);
  service.answerNext(failure);
  receiver.answerNext(failure);
  const observer = new Record();
  const toml = `${callType(service, "retries = 1")}${PRINT}`;
  const daemon = await startTestDaemon(t, { clock, observer, toml });

  const { tasks } = await daemon.post([
    { type: "call", pingback_url: receiver.url("/") },
    { type: "print" },
    { type: "print" },
    { type: "nobody's" },
  ]);
  await pass(daemon, clock, 0);
  const accepted = new Map(Object.entries({ call: 1, print: 2 }));
  assert.deepEqual(observer.posts, [{ accepted, refused: 1 }]);
  assert.deepEqual(observer.starts, [{ type: "call", waitedMs: 0 }]);
  assert.deepEqual(observer.ends, [], "a run that is tried again ends no task");
  await pass(daemon, clock, 3 * TICK);
  await daemon.call(`/v1/tasks/task_cancel/${tasks[1]?.id}`, { method: "POST" });

  // The second run may start a second after the failure, and did after three.
  assert.deepEqual(observer.starts.slice(1), [{ type: "call", waitedMs: 2 * TICK }]);
  assert.deepEqual(observer.ends, [
    { type: "call", state: "completed" },
    { type: null, state: "cancelled" },
  ]);
  await pass(daemon, clock, MINUTE + TICK);
  assert.deepEqual(
    observer.runs,
    ["failed", "completed"].map((outcome) => ({ type: "call", outcome, ms: 0 })),
  );
  const attempt = { kind: "pingback", host, ms: 0 } as const;
  assert.deepEqual(observer.attempts, [
    { ...attempt, outcome: "failed", lagMs: 0, state: "scheduled" },
    { ...attempt, outcome: "delivered", lagMs: TICK, state: "delivered" },
  ]);
});

test("an observed run and attempt is on disk", async (t) => {
  const found: unknown[] = [];
  const look = (sql: string): void => {
    const file = new Database(daemon.file, { readonly: true });
    found.push(file.prepare(sql).pluck().get());
    file.close();
  };
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, {
    observer: {
      run: () => look("SELECT state FROM tasks"),
      attempt: () => look("SELECT ended FROM deliveries"),
    },
  });

  await daemon.post({ postback_url: receiver.url("/") });
  await daemon.daemon.idle();

  assert.deepEqual(found, ["completed", "delivered"]);
});

test("a worker's run is observed when it is claimed and ended, and a release is not", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const observer = new Record();
  const { daemon, worker } = await startWithWorker(t, { clock, observer, toml: PRINT });
  await daemon.post([1, 2, 3].map((input) => ({ type: "print", input })));
  clock.advance(500);
  const completed = await worker.claimOne();
  const failed = await worker.claimOne();
  clock.advance(200);

  assert.equal(await worker.complete(completed), "ok");
  assert.equal(await worker.complete(completed), "ok");
  assert.equal(await worker.fail(failed, { retry: false }), "ok");
  assert.equal(await worker.release(await worker.claimOne()), "ok");

  const [first, second] = observer.starts;
  assert.deepEqual([first, second], Array(2).fill({ type: "print", waitedMs: 500 }));
  const states = ["completed", "failed"] as const;
  assert.deepEqual(
    observer.ends,
    states.map((state) => ({ type: "print", state })),
  );
  assert.deepEqual(
    observer.runs,
    states.map((outcome) => ({ type: "print", outcome, ms: 200 })),
  );
});

test("an expired lease is observed, and its late result without type and duration", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const observer = new Record();
  const { daemon, worker } = await startWithWorker(t, { clock, observer, toml: PRINT });
  await daemon.post({ type: "print" });
  const task = await worker.claimOne();

  await pass(daemon, clock, LEASE + TICK);
  assert.deepEqual(observer.runs, [{ type: "print", outcome: "expired", ms: LEASE + TICK }]);
  assert.equal(await worker.complete(task), "ok");

  assert.deepEqual(observer.runs.slice(1), [{ type: null, outcome: "completed", ms: null }]);
});

test("a run that an earlier process began is observed without a duration", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const observer = new Record();
  const first = await startWithWorker(t, { clock, toml: PRINT });
  await first.daemon.post({ type: "print" });
  const task = await first.worker.claimOne();
  await first.daemon.daemon.stop();
  const { folder, account } = first.daemon;
  const again = { clock, observer, toml: PRINT, folder, account, worker: first.worker };
  const { worker } = await startWithWorker(t, again);

  assert.equal(await worker.complete(task), "ok");

  assert.deepEqual(observer.runs, [{ type: "print", outcome: "completed", ms: null }]);
});

test("a request is observed by its operation, without a word of the client", async (t) => {
  const observer = new Record();
  const { call, daemon } = await startTestDaemon(t, {
    clock: createFakeClock({ now: NOW }),
    observer,
  });

  await call("/v1/tasks/tasks_ready?tag=secret", { method: "HEAD" });
  await call("/v1/tasks/tasks_ready", { method: "PATCH" });
  await call("/v1/secret");
  await call("/v1/%ff");
  await fetch(`${daemon.url}/v1/tasks/tasks_ready`);

  const operation = "GET /v1/tasks/tasks_ready";
  assert.deepEqual(observer.requests, [
    { operation, status: 200, ms: 0 },
    { operation: null, status: 405, ms: 0 },
    { operation: null, status: 404, ms: 0 },
    { operation: null, status: 400, ms: 0 },
    { operation, status: 401, ms: 0 },
  ]);
});

test("a request whose client disconnected is observed without a status", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const { promise: told, resolve } = Promise.withResolvers<ObservedRequest>();
  const request = (each: ObservedRequest): void => {
    if (each.operation?.startsWith("GET") === true) resolve(each);
  };
  const daemon = await startTestDaemon(t, { clock, observer: { request } });
  const { tasks } = await daemon.post({ start_at: "2030-01-31T10:00:00Z" });
  const timers = clock.pending().length;
  const gone = new AbortController();
  const asked = daemon.call(`/v1/tasks/task_get/${tasks[0]?.id}`, {
    headers: { prefer: "wait=60" },
    signal: gone.signal,
  });
  await clock.whenPending(timers + 1);

  gone.abort();

  await assert.rejects(asked, { name: "AbortError" });
  assert.deepEqual(await told, { operation: "GET /v1/tasks/task_get/:id", status: null, ms: 0 });
});

test("an observer that throws or rejects changes nothing and is logged once", async (t) => {
  const receiver = await startReceiver(t);
  const broken = (): never => {
    throw new Error("no more room for counters");
  };
  const brokenLater = async (): Promise<never> => Promise.reject(new Error("the exporter is gone"));
  const observer = { request: broken, commit: brokenLater, run: broken, attempt: brokenLater };
  const daemon = await startTestDaemon(t, { observer });

  const posted = await daemon.post([1, 2].map(() => ({ postback_url: receiver.url("/") })));
  await daemon.daemon.idle();

  for (const { id } of posted.tasks) assert.equal((await daemon.get(id)).state, "completed");
  assert.equal(receiver.requests.length, 2);
  const errors = daemon.logLines.filter((line) => line.includes('"level":"error"'));
  assert.equal(errors.length, 1, errors.join(""));
  assert.match(errors[0] ?? "", /the observer threw/);
});

test("the gauges have the queue of each type and the lanes", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  const toml = `${PRINT}[types.copy]\nrunner = "echo"\n`;
  const daemon = await startTestDaemon(t, { toml });
  await daemon.post([1, 2].map(() => ({ type: "print" })));
  await daemon.post({ type: "copy", postback_url: receiver.url("/") });
  await receiver.next();

  const { queue, lanes } = await daemon.daemon.gauges();

  assert.deepEqual(queue, [
    { type: "print", waiting: 2, isMoreWaiting: false },
    { type: "copy", waiting: 0, isMoreWaiting: false },
  ]);
  assert.deepEqual(lanes, { lanes: 1, underWay: 1, heldAccounts: 0, pauses: 0 });
});

test("a commit is observed with its operations, and a refused batch with its reason", async () => {
  const clock = createFakeClock({ now: NOW });
  const replies: BatchReply[] = [
    {
      kind: "committed",
      values: [1, undefined, 1],
      rejected: [{ index: 1, message: "a bug" }],
      changed: [],
      hasWritten: true,
    },
    { kind: "full", message: "no room" },
  ];
  const inner = {
    async send() {
      clock.advance(7);
      return replies.shift() ?? assert.fail();
    },
    async close() {},
  };
  const observer = new Record();
  const transport = observedTransport(inner, {
    observer: {
      commit: (each) => observer.commit(each),
      refusal: (each) => observer.refusal(each),
    },
    clock,
  });

  assert.equal((await transport.send([])).kind, "committed");
  assert.equal((await transport.send([])).kind, "full");

  assert.deepEqual(observer.commits, [{ operations: 2, ms: 7 }]);
  assert.deepEqual(observer.refusals, [{ reason: "full" }]);
});

test("without an observer nothing is wrapped", () => {
  const clock = createFakeClock({ now: NOW });
  const transport = { send: () => assert.fail(), close: () => assert.fail() };
  for (const observer of [undefined, {}]) {
    assert.equal(observedTransport(transport, { observer, clock }), transport);
    assert.deepEqual(requestHooks({ observer, clock, operations: [] }), {});
  }
});
