import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { WorkerDesk } from "../../src/http/operation-deps.ts";
import { StoreError, type LeasedTask, type WorkerHolder } from "../../src/store/store.ts";
import { clusterTest } from "../helpers/cluster-test.ts";
import { openBeside, startTestDaemon } from "../helpers/daemon.ts";
import { exchange, headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import { taskGet, TASKS_READY, toAnswer } from "./answer.ts";
import { startRing } from "./ring.ts";
import {
  askAsWorker,
  claim,
  createTestWorker,
  outcomesOf,
  tasksOf,
  workerPost,
  type Called,
  type ClaimedTask,
} from "./worker-requests.ts";

type ClaimOrder = Parameters<WorkerDesk["claim"]>[0];

const TASK: LeasedTask = {
  seq: 1,
  accountId: 1,
  id: "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6",
  type: "print",
  tag: null,
  marketplace: null,
  inputText: null,
  queuedAt: 0,
  traceText: null,
  runs: 2,
  failures: 0,
  leaseId: "lease-1",
  leaseExpiresAt: Date.parse("2030-01-31T09:00:30.000Z"),
};

const WORKER: WorkerHolder = { workerId: 7, name: "press", types: ["print"], isRevoked: false };

const TYPES = ["print"];

/** The HTTP ring before a desk that notes the claims and returns the tasks of `tasks`. */
async function startDesk(
  t: TestContext,
  {
    tasks = async () => [],
    worker = async () => WORKER,
    isDraining = false,
    isAccepting = true,
  }: {
    readonly tasks?: (order: ClaimOrder) => Promise<readonly LeasedTask[]>;
    readonly worker?: () => Promise<WorkerHolder | null>;
    readonly isDraining?: boolean;
    readonly isAccepting?: boolean;
  } = {},
) {
  const orders: ClaimOrder[] = [];
  const released: (readonly object[])[] = [];
  const ring = await startRing(t, {
    isAccepting,
    store: { findWorkerHolder: worker },
    desk: {
      isDraining,
      claim(order) {
        orders.push(order);
        return tasks(order);
      },
      async release(_, leases) {
        released.push(leases);
        return leases.map(() => "ok");
      },
    },
  });
  return { ...ring, orders, released };
}

test("a claim is for the worker's types, one task and no wait unless it says more", async (t) => {
  const { orders, ...called } = await startDesk(t);
  await claim(called, { types: TYPES });
  await claim(called, { types: TYPES, max: 100, wait_seconds: 30 });
  await claim(called, { types: TYPES, max: null, wait_seconds: null });
  await claim(called, '{"types":["print"],"max":2.0,"wait_seconds":0.0015}');

  const shown = orders.map(({ gone: _gone, ...order }) => order);
  const base = { workerId: 7, types: TYPES, max: 1, waitMs: 0 };
  const most = { ...base, max: 100, waitMs: 30_000 };
  assert.deepEqual(shown, [base, most, base, { ...base, max: 2, waitMs: 2 }]);
});

test("a claimed task has its input as posted, its lease and the number of its run", async (t) => {
  const inputText = '{"a":1.0,"b":12345678901234567890,"c":"\\ud800","__proto__":[-0]}';
  const tasks = [TASK, { ...TASK, inputText, tag: 'é "x"', marketplace: "de" }];
  const called = await startDesk(t, { tasks: async () => tasks });
  const { response } = await askAsWorker(called, "claim", { types: TYPES, max: 2 });

  const head = `{"id":"${TASK.id}","type":"print",`;
  const lease =
    '"lease_id":"lease-1","lease_expires_at":"2030-01-31T09:00:30.000Z","run":2' +
    ',"traceparent":null,"tracestate":null}';
  const items = [
    `${head}"tag":null,"marketplace":null,"input":null,${lease}`,
    `${head}"tag":"é \\"x\\"","marketplace":"de","input":${inputText},${lease}`,
  ];
  const envelope = '"status_code":20000,"status_message":"Ok.","tasks_count":2,"tasks_error":0';
  assert.equal(response.body.toString(), `{${envelope},"tasks":[${items.join(",")}]}`);
});

test("a claim with bad types, or with a number just outside its range, is 40501 and never clamped", async (t) => {
  const { orders, ...called } = await startDesk(t);
  const many = JSON.stringify(Array.from({ length: 101 }, (_, i) => `t${i}`));
  const bad: readonly (readonly [field: string, values: readonly string[]])[] = [
    ["types", ["[]", "[5]", "[null]", '[["print"]]', '["print","print"]', many, "null"]],
    ["max", ["0", "101", "1.5", "1e-400", "-0"]],
    ["wait_seconds", ["-0.001", "30.001"]],
  ];
  for (const [field, values] of bad) {
    for (const value of values) {
      const rest = field === "types" ? "" : '"types":["print"],';
      const { code, body } = await askAsWorker(called, "claim", `{${rest}"${field}":${value}}`);
      const pointers = body.errors?.map(({ pointer }) => pointer);
      assert.deepEqual([code, pointers], [40501, [`/${field}`]], value.slice(0, 80));
    }
  }
  assert.deepEqual(orders, []);
});

test("a type the token is not for is 40301, and one that no worker runs is 40501", async (t) => {
  const worker = async () => ({ ...WORKER, types: ["print", "gone", "echo"] });
  const { orders, ...called } = await startDesk(t, { worker });
  const refused: readonly (readonly [types: readonly string[], code: number, pointer: string])[] = [
    ...["other", "Print", "print ", "__proto__", "", "x".repeat(500), "\ud800"].map(
      (type) => [["print", type], 40301, "/types/1"] as const,
    ),
    // The token comes first.
    [["gone", "other"], 40301, "/types/1"],
    [["print", "gone"], 40501, "/types"],
    [["print", "echo"], 40501, "/types"],
  ];
  for (const [types, code, pointer] of refused) {
    const answer = await askAsWorker(called, "claim", { types });
    assert.deepEqual(
      [answer.code, answer.body.errors?.[0]?.pointer],
      [code, pointer],
      types.join(),
    );
  }
  assert.deepEqual(orders, []);
});

test("while the daemon stops a claim returns no task and does not wait, and a bad claim is refused", async (t) => {
  const { orders, ...called } = await startDesk(t, { isDraining: true, isAccepting: false });
  assert.deepEqual(await claim(called, { types: TYPES, wait_seconds: 30 }), []);
  assert.deepEqual(orders, []);
  assert.equal((await askAsWorker(called, "claim", { types: ["other"] })).code, 40301);
});

test("while the daemon starts, or after a fault of its store, a claim is 50300", async (t) => {
  const { orders, ...called } = await startDesk(t, { isAccepting: false });
  const { code, response } = await askAsWorker(called, "claim", { types: TYPES });
  assert.deepEqual([code, headerOf(response, "retry-after")], [50300, "5"]);
  assert.deepEqual(orders, []);
});

test("a busy store is 50300, a full one 50700 and a bug 50000, with nothing secret", async (t) => {
  for (const [error, expected] of [
    [new StoreError("busy", "SECRET"), 50300],
    [new StoreError("full", "SECRET"), 50700],
    [new Error("SECRET"), 50000],
  ] as const) {
    const called = await startDesk(t, { tasks: () => Promise.reject(error) });
    const { code, response } = await askAsWorker(called, "claim", { types: TYPES });
    assert.equal(code, expected);
    assert.doesNotMatch(response.body.toString(), /SECRET/);
    assert.equal(called.logged.length, expected === 50000 ? 1 : 0);
    assert.ok(!JSON.stringify(called.logged).includes(called.token.slice(9)));
  }
});

/** Returns once the daemon has read what other connections sent before. */
async function settle(url: string): Promise<void> {
  for (let i = 0; i < 3; i++) await exchange(url, { target: "/livez" });
}

/** Sends a claim that waits, on a connection of its own. */
async function sendClaim(t: TestContext, called: Called) {
  const connection = await openRaw(t, called.url);
  const body = { types: TYPES, wait_seconds: 30 };
  connection.send(toBytes(workerPost(called, { operation: "claim", body })));
  return connection;
}

for (const [state, expected, second] of [
  ["revoked", 40101, async () => ({ ...WORKER, isRevoked: true })],
  ["unknown to a busy store", 50300, () => Promise.reject(new StoreError("busy", "SECRET"))],
] as const) {
  test(`a claim whose token is ${state} after its wait is ${expected}, and its tasks are released`, async (t) => {
    let reads = 0;
    const called = await startDesk(t, {
      tasks: async () => [TASK, { ...TASK, leaseId: "lease-2" }],
      worker: () => (++reads === 1 ? Promise.resolve(WORKER) : second()),
    });
    const connection = await sendClaim(t, called);

    assert.equal(toAnswer(await connection.next()).code, expected);
    const ref = { id: TASK.id, leaseId: "lease-1" };
    assert.deepEqual(called.released, [[ref, { ...ref, leaseId: "lease-2" }]]);
  });
}

test("the tasks of a claim whose client disconnected are released", async (t) => {
  const arrived = Promise.withResolvers<ClaimOrder>();
  const found = Promise.withResolvers<readonly LeasedTask[]>();
  const called = await startDesk(t, {
    tasks(order) {
      arrived.resolve(order);
      return found.promise;
    },
  });
  const connection = await sendClaim(t, called);
  const { gone } = await arrived.promise;
  assert.equal(gone.aborted, false);
  connection.reset();
  await settle(called.url);
  assert.equal(gone.aborted, true);
  found.resolve([TASK]);
  await settle(called.url);

  assert.deepEqual(called.released, [[{ id: TASK.id, leaseId: TASK.leaseId }]]);
  assert.deepEqual(called.logged, []);
});

/** A daemon whose only type is run by workers. */
async function startWorkers(t: TestContext) {
  const toml = '[types.print]\nrunner = "worker"\nlease = "30s"\n';
  const daemon = await startTestDaemon(t, { toml });
  return { ...daemon, token: await createTestWorker(daemon.file, TYPES) };
}

/** A claim that waits at the daemon's desk when this resolves. */
async function startClaim(t: TestContext, called: Called) {
  const connection = await sendClaim(t, called);
  await settle(called.url);
  return connection;
}

function ref({ id, lease_id }: ClaimedTask) {
  return { id, lease_id };
}

test("progress is shown in the task and in lists while its run lasts, and not in the next run", async (t) => {
  const daemon = await startWorkers(t);
  const id = (await daemon.post({})).tasks[0]?.id ?? "";
  const shown = async (path = taskGet(id)): Promise<unknown> =>
    JSON.parse(await (await daemon.call(path)).text()).tasks[0].progress;
  const claimed = async () => (await claim(daemon, { types: TYPES }))[0] ?? assert.fail();
  const first = await claimed();
  assert.equal(await shown(), null);
  for (const [progress, note] of [
    [0, null],
    [0.5, 'half "way" é'],
    [1, null],
  ] as const) {
    const beat = { leases: [{ ...ref(first), progress: { progress, note } }] };
    await outcomesOf(daemon, "heartbeat", beat);
    assert.deepEqual(await shown(), { progress, note });
    assert.deepEqual(await shown("/v1/tasks"), { progress, note });
  }
  await outcomesOf(daemon, "heartbeat", { leases: [ref(first)] });
  assert.deepEqual(await shown(), { progress: 1, note: null });
  await outcomesOf(daemon, "release", { tasks: [ref(first)] });
  assert.equal(await shown(), null);
  const second = await claimed();
  assert.equal(await shown(), null);
  const beat = { leases: [ref(second)], progress: { progress: 0.5 } };
  await outcomesOf(daemon, "heartbeat", beat);
  await outcomesOf(daemon, "complete", { tasks: [{ ...ref(second), result: 1 }] });
  for (const path of [TASKS_READY, "/v1/tasks", taskGet(id)]) {
    assert.equal(await shown(path), null, path);
  }
});

clusterTest("a waiting claim returns the task that is posted meanwhile", async (t) => {
  const daemon = await startWorkers(t);
  const waiting = await startClaim(t, daemon);
  const id = (await daemon.post({})).tasks[0]?.id;

  const [task] = tasksOf<ClaimedTask>(toAnswer(await waiting.next()));
  assert.equal(task?.id, id);
});

clusterTest(
  "a waiting claim of a revoked token leaves the task's run to the next worker",
  async (t) => {
    const daemon = await startWorkers(t);
    const other = await createTestWorker(daemon.file, TYPES, "other");
    const waiting = await startClaim(t, daemon);
    const store = await openBeside(t, daemon);
    await store.revokeWorker({ name: "press", revokedAt: Date.now() });
    const id = (await daemon.post({})).tasks[0]?.id;

    assert.equal(toAnswer(await waiting.next()).code, 40101);
    const [task] = await claim({ ...daemon, token: other }, { types: TYPES, wait_seconds: 30 });
    assert.deepEqual([task?.id, task?.run], [id, 1]);
  },
);

clusterTest("a worker that disconnects while its claim waits takes no task", async (t) => {
  const daemon = await startWorkers(t);
  const waiting = await startClaim(t, daemon);
  waiting.reset();
  await settle(daemon.url);
  const id = (await daemon.post({})).tasks[0]?.id;
  const [task] = await claim(daemon, { types: TYPES, wait_seconds: 30 });

  assert.deepEqual([task?.id, task?.run], [id, 1]);
});

test("a stop answers requests that were sent before it, and a heartbeat then has drain: true", async (t) => {
  const daemon = await startWorkers(t);
  const id = (await daemon.post({})).tasks[0]?.id ?? "";
  const [task] = await claim(daemon, { types: TYPES });
  assert.ok(task !== undefined);
  const connection = await startClaim(t, daemon);
  const leases = [ref(task)];
  connection.send(toBytes(workerPost(daemon, { operation: "heartbeat", body: { leases } })));
  const tasks = [{ ...ref(task), result: 1 }];
  connection.send(toBytes(workerPost(daemon, { operation: "complete", body: { tasks } })));
  await settle(daemon.url);
  const stopped = daemon.daemon.stop();

  assert.deepEqual(tasksOf(toAnswer(await connection.next())), []);
  const ok = [{ id, outcome: "ok" }];
  const beat = toAnswer(await connection.next());
  assert.deepEqual(tasksOf(beat), ok);
  assert.equal(JSON.parse(beat.response.body.toString()).drain, true);
  assert.deepEqual(tasksOf(toAnswer(await connection.next())), ok);
  await stopped;
});
