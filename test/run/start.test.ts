import assert from "node:assert/strict";
import { test } from "node:test";

import { parseAllowList } from "../../src/domain/address/allow-list.ts";
import type { Logger } from "../../src/domain/log.ts";
import { Engine } from "../../src/run/engine.ts";
import type { Store } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import {
  leaseOne,
  newAttemptResult,
  newPost,
  newTask,
  openTestStore,
  retainedUntil,
  RETENTION_MS,
  seedAccount,
  seedWorker,
  T0,
} from "../helpers/store.ts";

const log: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const HOST = "127.0.0.1";
const WORKER_TYPE = { concurrency: 9, retries: 0, leaseMs: 30_000, timeoutMs: 600_000 };

/** An engine that has not started, with a type of workers and one of its own. */
function newEngine(store: Store) {
  const sent: string[] = [];
  const runs: string[] = [];
  const allow = parseAllowList([HOST]);
  assert(allow.kind === "allow-list");
  const engine = new Engine({
    ...{ store, clock: createFakeClock({ now: T0 }), log, resources: [] },
    ...{ retentionMs: RETENTION_MS, queueDays: 30, retryAfterMs: [] },
    ...{ taskEnded() {}, awaited: () => [], accountsDisabled() {} },
    types: new Map([["own", { retries: 0, runner: { concurrency: 9, run } }]]),
    workerTypes: new Map([["echo", WORKER_TYPE]]),
    sender: {
      send: async ({ headers }) => {
        sent.push(headers["x-attempt"] ?? "");
        await turn();
        return newAttemptResult({ outcome: "delivered", httpStatus: 200, error: null });
      },
      abort() {},
    },
    urlPolicy: () => ({ allow: allow.list, ownNames: [], ownAddresses: [] }),
    limits: { inFlightMax: 8, inFlightPerHostMax: 2 },
  });

  async function run({ id }: { readonly id: string }) {
    runs.push(id);
    await turn();
    return { kind: "completed", resultText: "1" } as const;
  }

  return { engine, sent, runs };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

test("a completion before the recovery of the start is sent once after it", async (t) => {
  const store = await openTestStore(t);
  const accountId = await seedAccount(store);
  const postback = { url: `http://${HOST}/hook`, host: HOST };
  await store.insertTasks(newPost(accountId, [newTask({ postback })]));
  const workerId = await seedWorker(store);
  const { id, leaseId } = await leaseOne(store, workerId);
  const { engine, sent } = newEngine(store);

  assert.deepEqual(await engine.desk.complete(workerId, [{ id, leaseId, resultText: "1" }]), [
    "ok",
  ]);
  engine.wakeDeliveries([{ accountId, host: HOST }]);
  await turn();
  assert.deepEqual(sent, []);
  await engine.start();
  await engine.idle();

  assert.deepEqual(sent, ["1"]);
  const [delivery] = (await store.listDeliveries({ accountId, id })) ?? [];
  assert.deepEqual(
    delivery?.attempts.map(({ outcome }) => outcome),
    ["delivered"],
  );
  engine.drain();
  await engine.quiet();
});

test("a release before the recovery of the start starts no run", async (t) => {
  const store = await openTestStore(t);
  const accountId = await seedAccount(store);
  const own = newTask({ type: "own" });
  await store.insertTasks(newPost(accountId, [newTask(), own]));
  const workerId = await seedWorker(store);
  const lease = await leaseOne(store, workerId);
  const { engine, runs } = newEngine(store);

  assert.deepEqual(await engine.desk.release(workerId, [lease]), ["ok"]);
  await turn();
  assert.deepEqual(runs, []);
  await engine.start();
  await engine.idle();

  assert.deepEqual(runs, [own.id]);
  engine.drain();
  await engine.quiet();
});

test("the progress from a worker is forgotten when the task is cancelled", async (t) => {
  const store = await openTestStore(t);
  const accountId = await seedAccount(store);
  await store.insertTasks(newPost(accountId, [newTask()]));
  const workerId = await seedWorker(store);
  const { id, leaseId } = await leaseOne(store, workerId);
  const { engine } = newEngine(store);
  await engine.start();
  const progress = { progress: 0.5, note: null };

  assert.deepEqual(await engine.desk.heartbeat(workerId, [{ id, leaseId, progress }]), ["ok"]);
  assert.deepEqual(engine.progress.of(id), progress);
  await store.cancelTask({ accountId, id, cancelledAt: T0, ...retainedUntil(T0 + RETENTION_MS) });
  engine.cancel(id);
  assert.equal(engine.progress.of(id), null);

  engine.drain();
  await engine.quiet();
  await engine.close();
});
