import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { TestContext } from "node:test";

import type { EmbeddedDaemon, TypeSettings } from "postbackd";

import { claim, outcomesOf } from "../http/worker-requests.ts";
import { node, openHeldProcesses } from "../run/command-run.ts";

/** A run that lasts until the test ends it. */
export interface HeldRun {
  /** Resolves when the runner has to stop: its task was cancelled, or its account disabled. */
  told(why: "cancelled" | "disabled"): Promise<unknown>;
  /** Completes the task. */
  finish(): unknown;
}

export interface Kind {
  readonly type: TypeSettings;
  /** The next run. */
  next(daemon: EmbeddedDaemon): Promise<HeldRun>;
}

const LIMITS = { concurrency: 1 };

/** A queue of values whose readers may come first. */
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
        async told(why) {
          const outcome = why === "cancelled" ? "cancelled" : "lost";
          const told = [{ id: task.id, outcome }];
          assert.deepEqual(await ask("heartbeat", { leases: [lease] }), told);
          if (why === "cancelled") assert.deepEqual(await complete(), told);
        },
        finish: complete,
      };
    },
  };
}

export async function functionKind(): Promise<Kind> {
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

export const KINDS = {
  command: commandKind,
  http: httpKind,
  worker: workerKind,
  function: functionKind,
} as const;
