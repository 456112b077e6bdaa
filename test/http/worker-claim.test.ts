import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { WorkerDesk } from "../../src/http/operation-deps.ts";
import { StoreError, type LeasedTask, type WorkerHolder } from "../../src/store/store.ts";
import { exchange, headerOf, openRaw, toBytes } from "../helpers/raw-http.ts";
import { toAnswer } from "./answer.ts";
import { startRing, type Ring } from "./ring.ts";
import { askAsWorker, claim, workerPost, type Called } from "./worker-requests.ts";

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

const REF = { id: TASK.id, leaseId: TASK.leaseId };

/** The HTTP ring before a desk that notes the claims, and answers them by `answer`. */
async function startDesk(
  t: TestContext,
  {
    answer = async () => [],
    worker = async () => WORKER,
    ...more
  }: {
    readonly answer?: (order: ClaimOrder) => Promise<readonly LeasedTask[]>;
    readonly worker?: () => Promise<WorkerHolder | null>;
    readonly isDraining?: boolean;
    readonly isAccepting?: boolean;
  } = {},
) {
  const orders: ClaimOrder[] = [];
  const released: (readonly object[])[] = [];
  const ring = await startRing(t, {
    ...(more.isAccepting === undefined ? {} : { isAccepting: more.isAccepting }),
    store: { findWorkerHolder: worker },
    desk: {
      isDraining: more.isDraining ?? false,
      claim(order) {
        orders.push(order);
        return answer(order);
      },
      async release(workerId, leases) {
        assert.equal(workerId, WORKER.workerId);
        released.push(leases);
        return leases.map(() => "ok");
      },
    },
  });
  return { ...ring, orders, released };
}

test("a claim says for whom, what, how many and how long: one task at once unless told", async (t) => {
  const { orders, ...called } = await startDesk(t);
  const types = ["print"];
  await claim(called, { types });
  await claim(called, { types, max: 100, wait_seconds: 30 });
  await claim(called, { types, max: null, wait_seconds: null });
  await claim(called, '{"types":["print"],"max":2.0,"wait_seconds":0.0015}');

  const shown = orders.map(({ gone: _gone, ...order }) => order);
  const base = { workerId: 7, types, max: 1, waitMs: 0 };
  assert.deepEqual(shown, [
    base,
    { ...base, max: 100, waitMs: 30_000 },
    base,
    { ...base, max: 2, waitMs: 2 },
  ]);
});

test("a task is given with its input to the last digit, its lease, and which run it is", async (t) => {
  const inputText = '{"a":1.0,"b":12345678901234567890,"c":"\\ud800","__proto__":[-0]}';
  const tasks = [TASK, { ...TASK, inputText, tag: 'é "x"', marketplace: "de" }];
  const called = await startDesk(t, { answer: async () => tasks });
  const { response } = await askAsWorker(called, "claim", { types: ["print"], max: 2 });

  const text = response.body.toString();
  const head = `{"id":"${TASK.id}","type":"print",`;
  const lease =
    '"lease_id":"lease-1","lease_expires_at":"2030-01-31T09:00:30.000Z","run":2' +
    ',"traceparent":null,"tracestate":null}';
  const items = [
    `${head}"tag":null,"marketplace":null,"input":null,${lease}`,
    `${head}"tag":"é \\"x\\"","marketplace":"de","input":${inputText},${lease}`,
  ];
  const envelope = '"status_code":20000,"status_message":"Ok.","tasks_count":2,"tasks_error":0';
  assert.equal(text, `{${envelope},"tasks":[${items.join(",")}]}`);
});

test("what breaks a rule of the body is 40501, and nothing is claimed: numbers are never clamped", async (t) => {
  const { orders, ...called } = await startDesk(t);
  const bad: readonly (readonly [string, string])[] = [
    ...["5", '"print"', "{}", "[]", "[5]", "[null]", '[["print"]]', '["print","print"]'].map(
      (types) => ["types", `{"types":${types}}`] as const,
    ),
    ["types", JSON.stringify({ types: Array.from({ length: 101 }, (_, i) => `t${i}`) })],
    ["types", "{}"],
    ["types", '{"types":null}'],
    ...["0", "101", "-1", "1.5", '"1"', "true", "[]", "{}", "1e400", "1e-400", "-0"].map(
      (max) => ["max", `{"types":["print"],"max":${max}}`] as const,
    ),
    ...["-0.001", "30.001", "31", '"5"', "true", "[]", "{}", "1e400", "60"].map(
      (seconds) => ["wait_seconds", `{"types":["print"],"wait_seconds":${seconds}}`] as const,
    ),
    ["wait", '{"types":["print"],"wait":5}'],
  ];
  for (const [field, body] of bad) {
    const { code, body: shown } = await askAsWorker(called, "claim", body);
    assert.equal(code, 40501, body.slice(0, 80));
    assert.deepEqual(
      shown.errors?.map(({ pointer }) => pointer),
      [`/${field}`],
      body.slice(0, 80),
    );
  }
  assert.deepEqual(orders, []);
});

test("a type that the token is not for is 40301, configured or not; one that is no worker's is 40501", async (t) => {
  const worker = async () => ({ ...WORKER, types: ["print", "gone", "echo"] });
  const { orders, ...called } = await startDesk(t, { worker });
  const foreign = ["other", "Print", "print ", "__proto__", "", "x".repeat(500), "\ud800"];
  for (const type of foreign) {
    const { code, body } = await askAsWorker(called, "claim", { types: ["print", type] });
    assert.equal(code, 40301, type);
    assert.deepEqual(body.errors, [
      {
        pointer: "/types/1",
        detail: "This token is not for this type. It is for: print, gone, echo.",
      },
    ]);
  }
  const both = await askAsWorker(called, "claim", { types: ["gone", "other"] });
  assert.equal(both.code, 40301, "what it may not ask comes first");
  for (const type of ["gone", "echo"]) {
    const { code, body } = await askAsWorker(called, "claim", { types: ["print", type] });
    assert.equal(code, 40501);
    const [error] = body.errors ?? [];
    assert.equal(error?.pointer, "/types");
    assert.match(error?.detail ?? "", new RegExp(`^${type} is not .* these are: print\\.$`));
  }
  assert.deepEqual(orders, []);
});

test("while the daemon stops a claim comes back at once and empty, however long it would wait", async (t) => {
  const { orders, ...called } = await startDesk(t, { isDraining: true, isAccepting: false });
  assert.deepEqual(await claim(called, { types: ["print"], wait_seconds: 30 }), []);
  assert.deepEqual(orders, []);
  const { code } = await askAsWorker(called, "claim", { types: ["other"] });
  assert.equal(code, 40301, "what is wrong is said all the same");
});

test("while the daemon starts or is halted a claim is 50300, so that nobody asks without end", async (t) => {
  const { orders, ...called } = await startDesk(t, { isAccepting: false });
  const { code, response } = await askAsWorker(called, "claim", { types: ["print"] });
  assert.deepEqual([code, headerOf(response, "retry-after")], [50300, "5"]);
  assert.deepEqual(orders, []);
});

test("a desk that cannot claim is 50300 or 50700, and a bug in it 50000", async (t) => {
  const cases = [
    [new StoreError("busy", "SECRET"), 50300],
    [new StoreError("full", "SECRET"), 50700],
    [new Error("SECRET"), 50000],
  ] as const;
  for (const [error, expected] of cases) {
    const called = await startDesk(t, { answer: () => Promise.reject(error) });
    const { code, response } = await askAsWorker(called, "claim", { types: ["print"] });
    assert.equal(code, expected);
    assert.doesNotMatch(response.body.toString(), /SECRET/);
  }
});

/** A claim that waits at the desk until the test answers it. */
async function startWaiting(t: TestContext, worker?: () => Promise<WorkerHolder | null>) {
  const answered = Promise.withResolvers<readonly LeasedTask[]>();
  const arrived = Promise.withResolvers<ClaimOrder>();
  const ring = await startDesk(t, {
    ...(worker === undefined ? {} : { worker }),
    answer(order) {
      arrived.resolve(order);
      return answered.promise;
    },
  });
  const connection = await openRaw(t, ring.url);
  const body = { types: ["print"], wait_seconds: 30 };
  connection.send(toBytes(workerPost(ring, { operation: "claim", body })));
  const order = await arrived.promise;
  return { ...ring, connection, order, answer: answered.resolve };
}

/** By the third answer the server has seen what other connections did before. */
async function settle({ url }: Pick<Ring, "url">): Promise<void> {
  for (let i = 0; i < 3; i++) await exchange(url, { target: "/livez" });
}

test("a worker that hangs up is told to the desk, and what comes for it after all goes back", async (t) => {
  const waiting = await startWaiting(t);
  const { order, connection } = waiting;
  assert.equal(order.gone.aborted, false);
  connection.reset();
  await settle(waiting);
  assert.equal(order.gone.aborted, true);
  waiting.answer([TASK]);
  await settle(waiting);

  assert.deepEqual(waiting.released, [[REF]]);
  assert.deepEqual(waiting.logged, []);
});

test("a token that is revoked while its claim waits gets no task: 40101, and the tasks go back", async (t) => {
  let isRevoked = false;
  const waiting = await startWaiting(t, async () => ({ ...WORKER, isRevoked }));
  isRevoked = true;
  waiting.answer([TASK, { ...TASK, leaseId: "lease-2" }]);

  const { code, response } = toAnswer(await waiting.connection.next());
  assert.equal(code, 40101);
  assert.equal(
    headerOf(response, "www-authenticate"),
    'Bearer realm="postbackd", error="invalid_token"',
  );
  assert.deepEqual(waiting.released, [[REF, { ...REF, leaseId: "lease-2" }]]);
});

test("a store that cannot say whose the token is hands out nothing, and the tasks go back", async (t) => {
  let looks = 0;
  const waiting = await startWaiting(t, async () => {
    if (++looks > 1) throw new StoreError("busy", "SECRET");
    return WORKER;
  });
  waiting.answer([TASK]);

  assert.equal(toAnswer(await waiting.connection.next()).code, 50300);
  assert.deepEqual(waiting.released, [[REF]]);
});

test("a claim that waited in vain is answered empty, and asks nothing more", async (t) => {
  let looks = 0;
  const waiting = await startWaiting(t, async () => {
    looks++;
    return WORKER;
  });
  waiting.answer([]);

  const { body } = toAnswer(await waiting.connection.next());
  assert.deepEqual(body.tasks, []);
  assert.deepEqual([looks, waiting.released], [1, []]);
});

test("a claim that waits holds up no other connection, and the next request of its own comes after it", async (t) => {
  const waiting = await startWaiting(t);
  const called: Called = waiting;
  waiting.connection.send(toBytes({ target: "/livez" }));
  const beat = await askAsWorker(called, "heartbeat", { leases: [] });
  assert.equal(beat.code, 20000);
  waiting.answer([]);

  assert.equal(toAnswer(await waiting.connection.next()).code, 20000);
  assert.equal((await waiting.connection.next()).body.toString(), '{"status":"ok"}');
});
