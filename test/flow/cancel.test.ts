import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { test, type TestContext } from "node:test";

import { createDaemon } from "postbackd";
import type { EmbeddedDaemon, TypeSettings } from "postbackd";

import { startReceiver } from "../helpers/receiver.ts";
import { taskClient } from "../helpers/task-client.ts";
import { claim, outcomesOf } from "../http/worker-requests.ts";
import { node } from "../runners/command-run.ts";
import { openHeldProcesses } from "../runners/held-process.ts";

/** What cancelling does to tasks of every kind of runner, wherever they are on their way. */

/** A run that lasts until the test ends it. */
interface HeldRun {
  /** Settles when the runner has been told to stop. */
  told(): Promise<unknown>;
  /** Completes the task. */
  finish(): unknown;
}

interface Kind {
  readonly type: TypeSettings;
  /** The next run. */
  next(daemon: EmbeddedDaemon): Promise<HeldRun>;
}

const LIMITS = { concurrency: 1 };

/** Hands on what comes, in its order, to whoever asks, however early. */
function createQueue<Value>() {
  const come: Value[] = [];
  const wanted: ((value: Value) => void)[] = [];
  return {
    put(value: Value): void {
      const want = wanted.shift();
      if (want === undefined) come.push(value);
      else want(value);
    },
    async next(): Promise<Value> {
      const value = come.shift();
      return value ?? new Promise((resolve) => wanted.push(resolve));
    },
  };
}

async function commandKind(t: TestContext): Promise<Kind> {
  const held = await openHeldProcesses(t);
  return {
    type: { command: node("hold.mjs", held.socketPath), ...LIMITS },
    async next() {
      const process = await held.next();
      return { told: () => process.ended, finish: () => process.socket.end() };
    },
  };
}

async function httpKind(t: TestContext): Promise<Kind> {
  const asked = createQueue<ServerResponse>();
  const server = createServer((_request, response) => asked.put(response));
  t.after(() => server.closeAllConnections());
  t.after(() => server.close());
  await once(server.listen(0, "127.0.0.1"), "listening");
  const address = server.address();
  assert(typeof address === "object" && address !== null);
  return {
    type: { url: `http://127.0.0.1:${address.port}/`, ...LIMITS },
    async next() {
      const response = await asked.next();
      const closed = once(response, "close");
      return { told: () => closed, finish: () => response.end("1") };
    },
  };
}

async function workerKind(): Promise<Kind> {
  let token: string | null = null;
  return {
    type: { runner: "worker", ...LIMITS },
    async next(daemon) {
      token ??= await daemon.workerToken("press", ["x"]);
      const called = { url: daemon.url, token };
      const [task] = await claim(called, { types: ["x"], wait_seconds: 30 });
      assert(task);
      const lease = { id: task.id, lease_id: task.lease_id };
      const ask = (operation: "heartbeat" | "complete", body: object) =>
        outcomesOf(called, operation, body);
      const complete = () => ask("complete", { tasks: [{ ...lease, result: 1 }] });
      return {
        async told() {
          const outcome = [{ id: task.id, outcome: "cancelled" }];
          assert.deepEqual(await ask("heartbeat", { leases: [lease] }), outcome);
          assert.deepEqual(await complete(), outcome);
        },
        finish: complete,
      };
    },
  };
}

async function functionKind(): Promise<Kind> {
  const runs = createQueue<{ readonly signal: AbortSignal; readonly resolve: () => void }>();
  return {
    type: {
      run: (_task, { signal }) =>
        new Promise<void>((resolve) => runs.put({ signal, resolve: () => resolve() })),
      ...LIMITS,
    },
    async next() {
      const { signal, resolve } = await runs.next();
      const aborted = new Promise((tell) => signal.addEventListener("abort", tell));
      return { told: () => aborted, finish: resolve };
    },
  };
}

const KINDS = {
  command: commandKind,
  http: httpKind,
  worker: workerKind,
  function: functionKind,
} as const;

for (const [name, makeKind] of Object.entries(KINDS)) {
  test(`a cancelled ${name} task stops where it runs, never runs where it waits, and sends nothing`, async (t) => {
    const kind = await makeKind(t);
    const receiver = await startReceiver(t);
    const config = { webhooks: { allow: ["127.0.0.1"] } };
    const daemon = await createDaemon({ types: { x: kind.type }, config });
    t.after(() => daemon.stop({ graceMs: 0 }));
    const { key } = await daemon.account();
    const client = taskClient({ url: daemon.url, key });
    const task = { type: "x", postback_url: receiver.url("/done") };

    const running = await client.post(task);
    const run = await kind.next(daemon);
    const queued = await client.post(task);
    const delayed = await client.post({ ...task, start_at: "2099-01-01T00:00:00Z" });
    const last = await client.post(task);
    for (const id of [queued, delayed, running]) await client.cancel(id);
    await run.told();
    await (await kind.next(daemon)).finish();

    const done = await client.ended(last);
    assert.deepEqual([done.state, done.runs], ["completed", 1]);
    for (const [id, runs] of [
      [running, 1],
      [queued, 0],
      [delayed, 0],
    ] as const) {
      const shown = await client.get(id);
      assert.deepEqual([shown.state, shown.status_code, shown.runs], ["cancelled", 40901, runs]);
      await client.cancel(id);
    }
    const tooLate = await client.call(`/v1/tasks/task_cancel/${last}`, { method: "POST" });
    assert.equal(tooLate.status, 409);
    await daemon.idle();
    const sent = receiver.requests.map(({ rawBody }) => JSON.parse(rawBody.toString()).tasks[0].id);
    assert.deepEqual(sent, [last]);
    const ready = await (await client.call("/v1/tasks/tasks_ready")).text();
    assert.ok(ready.includes(last) && ready.includes('"tasks_count":1,'), ready);
  });
}
