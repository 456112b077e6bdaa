import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { createTestAccount, type ShownTask, type TestAccount } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import {
  claim,
  createTestWorker,
  outcomesOf,
  workerPath,
  type ClaimedTask,
  type WorkerOperation,
} from "../http/worker-requests.ts";

/** The daemon as a process that is killed at each step of a worker's task, and what the worker is told after it. */

interface Place {
  readonly cwd: string;
  readonly account: TestAccount;
  readonly token: string;
}

interface Served extends Place {
  readonly program: Program;
  readonly url: string;
  readonly port: number;
}

async function makePlace(t: TestContext, lease: string): Promise<Place> {
  const cwd = temporaryFolder(t);
  const toml = `[types.print]\nrunner = "worker"\nlease = "${lease}"\nretries = 3\n`;
  writeFileSync(join(cwd, "postbackd.toml"), toml);
  const file = join(cwd, "postbackd.db");
  return {
    cwd,
    account: await createTestAccount(file),
    token: await createTestWorker(file, ["print"]),
  };
}

async function serve(t: TestContext, place: Place): Promise<Served> {
  const { cwd, account, token } = place;
  const program = startProgram(t, ["start", "--port", "0"], { cwd });
  const { url, port } = await program.ready;
  return { cwd, account, token, program, url, port };
}

async function kill({ program }: Served): Promise<void> {
  program.kill("SIGKILL");
  assert.deepEqual(await program.exit, { code: null, signal: "SIGKILL" });
}

async function call({ url, account }: Served, path: string, init: RequestInit = {}) {
  const headers = { authorization: `Bearer ${account.key}`, "content-type": "application/json" };
  const response = await fetch(`${url}/v1/tasks/${path}`, { ...init, headers });
  const { tasks } = (await response.json()) as { readonly tasks: readonly ShownTask[] };
  return tasks[0] ?? assert.fail();
}

function show(served: Served, id: string): Promise<ShownTask & { readonly progress: unknown }> {
  // What a test reads of it is the contract's.
  return call(served, `task_get/${id}?collect=false`) as Promise<
    ShownTask & { readonly progress: unknown }
  >;
}

/** Sends a request as a worker whose answer nobody will read; settles when the system has taken its last byte. */
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
  /** What is seen of it once it is on disk. */
  readonly isDone: (task: ShownTask & { readonly progress: unknown }) => boolean;
  /** State, code and runs in the end. */
  readonly end: readonly [state: string, code: number, runs: number];
  readonly result: unknown;
}

const listed = (more: object) => (lease: object) => ({ tasks: [{ ...lease, ...more }] });

const STEPS: Readonly<Record<Exclude<WorkerOperation, "claim">, Step>> = {
  heartbeat: {
    body: (lease) => ({ leases: [lease], progress: { progress: 0.5 } }),
    isDone: ({ progress }) => progress !== null,
    ...{ end: ["running", 40601, 1], result: null },
  },
  complete: {
    body: listed({ result: { pages: 3 } }),
    isDone: ({ state }) => state === "completed",
    ...{ end: ["completed", 20000, 1], result: { pages: 3 } },
  },
  fail: {
    body: listed({ message: "out of paper", retry: false }),
    isDone: ({ state }) => state === "failed",
    ...{ end: ["failed", 50010, 1], result: null },
  },
  release: {
    body: listed({}),
    isDone: ({ state }) => state === "queued",
    ...{ end: ["queued", 40602, 0], result: null },
  },
};

const MOMENTS = ["is sent", "is on disk and its answer is lost"] as const;

for (const moment of MOMENTS) {
  for (const operation of ["heartbeat", "complete", "fail", "release"] as const) {
    const { body, isDone, end, result } = STEPS[operation];

    test(`kill -9 when a ${operation} ${moment}: the same again after the restart is ok, and counts once`, async (t) => {
      const place = await makePlace(t, "1h");
      const first = await serve(t, place);
      const { id } = await call(first, "task_post", { method: "POST", body: "[{}]" });
      const { lease_id } = await claimOne(first);
      await send(t, first, { operation, body: body({ id, lease_id }) });
      while (moment !== "is sent" && !isDone(await show(first, id)));
      await kill(first);

      const second = await serve(t, place);
      const again = await outcomesOf(second, operation, body({ id, lease_id }));
      const oncemore = await outcomesOf(second, operation, body({ id, lease_id }));

      assert.deepEqual([again, oncemore], [[{ id, outcome: "ok" }], [{ id, outcome: "ok" }]]);
      const task = await show(second, id);
      assert.deepEqual([task.state, task.status_code, task.runs], end);
      assert.deepEqual(task.result, result);
    });
  }

  test(`kill -9 when a claim ${moment}: the task comes again, at the latest when its lease has run out`, async (t) => {
    const place = await makePlace(t, "1s");
    const first = await serve(t, place);
    const { id } = await call(first, "task_post", { method: "POST", body: "[{}]" });
    await send(t, first, { operation: "claim", body: CLAIM });
    while (moment !== "is sent" && (await show(first, id)).state !== "running");
    await kill(first);

    const second = await serve(t, place);
    const task = await claimOne(second);
    const lease = { id, lease_id: task.lease_id };
    const told = await outcomesOf(second, "complete", { tasks: [{ ...lease, result: 7 }] });

    assert.equal(task.id, id);
    if (moment === "is sent") assert.ok(task.run === 1 || task.run === 2, String(task.run));
    else assert.equal(task.run, 2, "a run that nobody was told of counts");
    assert.deepEqual(told, [{ id, outcome: "ok" }]);
    const shown = await show(second, id);
    assert.deepEqual([shown.state, shown.result, shown.runs], ["completed", 7, task.run]);
  });
}

test("kill -9 between claim and heartbeat: the lease goes on, and nobody else gets the task", async (t) => {
  const place = await makePlace(t, "1h");
  const first = await serve(t, place);
  const { id } = await call(first, "task_post", { method: "POST", body: "[{}]" });
  const { lease_id } = await claimOne(first);
  await kill(first);

  const second = await serve(t, place);
  assert.deepEqual(await claim(second, { types: ["print"] }), []);
  const beat = await outcomesOf(second, "heartbeat", { leases: [{ id, lease_id }] });
  await kill(second);
  const third = await serve(t, place);
  const told = await outcomesOf(third, "complete", { tasks: [{ id, lease_id, result: 7 }] });

  assert.deepEqual([beat, told], [[{ id, outcome: "ok" }], [{ id, outcome: "ok" }]]);
  const task = await show(third, id);
  assert.deepEqual([task.state, task.result, task.runs], ["completed", 7, 1]);
});

test("kill -9 after a lease ran out: its worker is told that it is lost once another has the task", async (t) => {
  const place = await makePlace(t, "1s");
  const first = await serve(t, place);
  const { id } = await call(first, "task_post", { method: "POST", body: "[{}]" });
  const old = await claimOne(first);
  const newest = await claimOne(first);
  assert.deepEqual([old.run, newest.run], [1, 2]);
  await kill(first);

  const second = await serve(t, place);
  const end = (lease: ClaimedTask, result: number) =>
    outcomesOf(second, "complete", { tasks: [{ id, lease_id: lease.lease_id, result }] });

  const [late] = await end(old, 1);
  assert.deepEqual([late?.id, late?.outcome], [id, "lost"]);
  assert.deepEqual(await end(newest, 2), [{ id, outcome: "ok" }]);
  const task = await show(second, id);
  assert.deepEqual([task.state, task.result, task.runs], ["completed", 2, 2]);
});
