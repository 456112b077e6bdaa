import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test, type TestContext } from "node:test";

import type { ShownTask } from "../helpers/daemon.ts";
import {
  claim,
  createTestWorker,
  outcomesOf,
  workerPath,
  type ClaimedTask,
  type WorkerOperation,
} from "../http/worker-requests.ts";
import { openPlace, type Running } from "./place.ts";

/** The daemon is killed at each step of a worker's task. */

type Served = Running & { readonly token: string };

/** Makes a database with a worker. Returns the start of a daemon on it. */
async function setUp(t: TestContext, lease: string): Promise<() => Promise<Served>> {
  const toml = `[types.print]\nrunner = "worker"\nlease = "${lease}"\nretries = 3\n`;
  const place = await openPlace(t, toml);
  const token = await createTestWorker(place.file, ["print"]);
  return async () => ({ ...(await place.start()), token });
}

type Shown = ShownTask & { readonly progress: unknown };

async function show({ client }: Served, id: string): Promise<Shown> {
  // The contract has this shape.
  return (await client.get(id)) as Shown;
}

/** Sends a request without reading its response. Resolves when the system has taken the last byte. */
async function send(
  t: TestContext,
  served: Served,
  { operation, body }: { readonly operation: WorkerOperation; readonly body: object },
): Promise<void> {
  const socket = connect(served.port, "127.0.0.1");
  t.after(() => socket.destroy());
  socket.on("error", () => {});
  await once(socket, "connect");
  const text = JSON.stringify(body);
  const head = [
    `POST ${workerPath(operation)} HTTP/1.1`,
    "Host: 127.0.0.1",
    `Authorization: Bearer ${served.token}`,
    "Content-Type: application/json",
    `Content-Length: ${text.length}`,
  ];
  await new Promise<void>((resolve) => {
    socket.write(`${head.join("\r\n")}\r\n\r\n${text}`, () => resolve());
  });
}

const CLAIM = { types: ["print"], max: 1, wait_seconds: 30 };

async function claimOne(served: Served): Promise<ClaimedTask> {
  for (;;) {
    const [task] = await claim(served, CLAIM);
    if (task !== undefined) return task;
  }
}

interface Step {
  readonly body: (lease: object) => object;
  /** Whether the step is on disk. */
  readonly isDone: (task: Shown) => boolean;
  readonly end: readonly [state: string, code: number, runs: number, result: unknown];
}

const listed = (more: object) => (lease: object) => ({ tasks: [{ ...lease, ...more }] });

const STEPS: Readonly<Record<Exclude<WorkerOperation, "claim">, Step>> = {
  heartbeat: {
    body: (lease) => ({ leases: [lease], progress: { progress: 0.5 } }),
    isDone: ({ progress }) => progress !== null,
    end: ["running", 40601, 1, null],
  },
  complete: {
    body: listed({ result: { pages: 3 } }),
    isDone: ({ state }) => state === "completed",
    end: ["completed", 20000, 1, { pages: 3 }],
  },
  fail: {
    body: listed({ message: "out of paper", retry: false }),
    isDone: ({ state }) => state === "failed",
    end: ["failed", 50010, 1, null],
  },
  release: {
    body: listed({}),
    isDone: ({ state }) => state === "queued",
    end: ["queued", 40602, 0, null],
  },
};
const OPERATIONS = ["heartbeat", "complete", "fail", "release"] as const;

for (const moment of ["the requests are sent", "the requests are on disk"]) {
  test(`a worker repeats each request after kill -9 when ${moment}, and each counts once`, async (t) => {
    const serve = await setUp(t, "1h");
    const first = await serve();
    const leases = [];
    for (const operation of OPERATIONS) {
      await first.client.post({});
      const { id, lease_id } = await claimOne(first);
      leases.push({ operation, lease: { id, lease_id } });
    }
    for (const { operation, lease } of leases) {
      const { body, isDone } = STEPS[operation];
      await send(t, first, { operation, body: body(lease) });
      while (moment.endsWith("disk") && !isDone(await show(first, lease.id)));
    }
    await first.kill();

    const second = await serve();

    for (const { operation, lease } of leases) {
      const { body, end } = STEPS[operation];
      for (let times = 0; times < 2; times++) {
        const outcomes = await outcomesOf(second, operation, body(lease));
        assert.deepEqual(outcomes, [{ id: lease.id, outcome: "ok" }], operation);
      }
      const { state, status_code, runs, result } = await show(second, lease.id);
      assert.deepEqual([state, status_code, runs, result], end, operation);
    }
  });

  test(`a claim's task is claimed again after kill -9 when ${moment}, at the latest after its lease`, async (t) => {
    const serve = await setUp(t, "1s");
    const first = await serve();
    const id = await first.client.post({});
    await send(t, first, { operation: "claim", body: CLAIM });
    while (moment.endsWith("disk") && (await show(first, id)).state !== "running");
    await first.kill();

    const second = await serve();
    const task = await claimOne(second);
    const lease = { id, lease_id: task.lease_id };
    const ended = await outcomesOf(second, "complete", { tasks: [{ ...lease, result: 7 }] });

    assert.equal(task.id, id);
    if (moment.endsWith("disk")) assert.equal(task.run, 2, "the lost claim counts as a run");
    else assert.ok(task.run === 1 || task.run === 2, String(task.run));
    assert.deepEqual(ended, [{ id, outcome: "ok" }]);
    const { state, result, runs } = await show(second, id);
    assert.deepEqual([state, result, runs], ["completed", 7, task.run]);
  });
}

test("a lease survives kill -9, and no other worker gets its task", async (t) => {
  const serve = await setUp(t, "1h");
  const first = await serve();
  const id = await first.client.post({});
  const { lease_id } = await claimOne(first);
  await first.kill();

  const second = await serve();
  assert.deepEqual(await claim(second, { types: ["print"] }), []);
  const ok = [{ id, outcome: "ok" }];
  assert.deepEqual(await outcomesOf(second, "heartbeat", { leases: [{ id, lease_id }] }), ok);
  await second.kill();
  const third = await serve();
  const body = { tasks: [{ id, lease_id, result: 7 }] };
  assert.deepEqual(await outcomesOf(third, "complete", body), ok);

  const { state, result, runs } = await show(third, id);
  assert.deepEqual([state, result, runs], ["completed", 7, 1]);
});

test("an expired lease stays lost after kill -9 if another worker has the task", async (t) => {
  const serve = await setUp(t, "1s");
  const first = await serve();
  const id = await first.client.post({});
  const old = await claimOne(first);
  const newest = await claimOne(first);
  assert.deepEqual([old.run, newest.run], [1, 2]);
  await first.kill();

  const second = await serve();
  const end = async ({ lease_id }: ClaimedTask, result: number) =>
    (await outcomesOf(second, "complete", { tasks: [{ id, lease_id, result }] }))[0]?.outcome;

  assert.equal(await end(old, 1), "lost");
  assert.equal(await end(newest, 2), "ok");
  const { state, result, runs } = await show(second, id);
  assert.deepEqual([state, result, runs], ["completed", 2, 2]);
});
