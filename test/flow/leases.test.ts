import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import type { ClaimedTask } from "../http/worker-requests.ts";
import { startWithWorker, type WorkerClient } from "./worker-client.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const HOUR = 3_600_000;
// A tick each second ends leases that ran out.
const TICK = 1000;
const LEASE = 30_000;
const PRINT = '[types.print]\nrunner = "worker"\n';

interface Setup {
  readonly clock: FakeClock;
  readonly daemon: TestDaemon;
  readonly worker: WorkerClient;
}

async function start(t: TestContext, toml = PRINT): Promise<Setup> {
  const clock = createFakeClock({ now: NOW });
  return { clock, ...(await startWithWorker(t, { clock, toml })) };
}

/** Posts one task and claims it. */
async function startLeased(t: TestContext, toml = PRINT): Promise<Setup & { task: ClaimedTask }> {
  const setup = await start(t, toml);
  await setup.daemon.post({ type: "print", input: { pages: 3 } });
  return { ...setup, task: await setup.worker.claimOne() };
}

/** Starts another daemon on the same file. */
async function restart(
  t: TestContext,
  { clock, daemon, worker }: Setup,
  { toml = PRINT, stoppedMs = 0 } = {},
): Promise<Setup> {
  const { folder, account } = daemon;
  await daemon.daemon.stop();
  clock.advance(stoppedMs);
  return { clock, ...(await startWithWorker(t, { clock, toml, folder, account, worker })) };
}

async function pass({ clock, daemon }: Setup, ms: number): Promise<void> {
  clock.advance(ms);
  await daemon.daemon.idle();
}

test("a lease survives a restart, also one that comes long after its end", async (t) => {
  const setup = await startLeased(t);
  const after = await restart(t, setup, { stoppedMs: HOUR });
  await after.daemon.daemon.idle();
  assert.equal((await after.daemon.get(setup.task.id)).state, "running");
  assert.deepEqual(await after.worker.claim(), []);
  await pass(after, LEASE - 1);
  assert.equal(await after.worker.heartbeat(setup.task), "ok");
  const again = await restart(t, after);
  assert.equal(await again.worker.complete(setup.task, "through two restarts"), "ok");
  const shown = await again.daemon.get(setup.task.id);
  assert.deepEqual([shown.result, shown.runs], ["through two restarts", 1]);
});

test("leases of a type that is no longer configured hold, time out and end", async (t) => {
  const toml = `${PRINT}retries = 9\ntimeout = "60s"\n`;
  const setup = await start(t, toml);
  await setup.daemon.post([1, 2, 3, 4].map((input) => ({ type: "print", input })));
  const [first, second, third, fourth] = await setup.worker.claim({ max: 4 });
  assert(first && second && third && fourth);
  const after = await restart(t, setup, { toml: '[types.other]\nrunner = "echo"\n' });
  const { worker, daemon } = after;
  assert.equal(await worker.complete(first), "ok");
  assert.equal(await worker.fail(second), "ok");
  await pass(after, LEASE - 1);
  assert.equal(await worker.heartbeat(third), "ok");
  await pass(after, LEASE - 1);
  assert.equal(await worker.heartbeat(third), "ok");
  await pass(after, TICK);
  const states = [];
  for (const { id } of [first, second, third, fourth]) states.push((await daemon.get(id)).state);
  assert.deepEqual(states, ["completed", "failed", "failed", "queued"]);
  assert.equal((await daemon.get(third.id)).status_code, 50401);
});

test("a worker claims tasks by priority, then by age, and none before its start_at", async (t) => {
  const setup = await start(t);
  const { daemon, worker } = setup;
  const later = new Date(NOW + 60_000).toISOString();
  const posted = [{ tag: "c" }, { tag: "d" }, { tag: "a", priority: 9 }, { tag: "b", priority: 1 }];
  const delayed = { tag: "e", priority: 9, start_at: later };
  await daemon.post([delayed, ...posted].map((task) => ({ type: "print", ...task })));
  const tags = async () => (await worker.claim({ max: 100 })).map(({ tag }) => tag).join("");

  assert.equal(await tags(), "abcd");
  await pass(setup, 59_000);
  await worker.claim({ max: 100 });
  const waiting = worker.claim({ max: 1, wait_seconds: 30 });
  await pass(setup, 1000);
  assert.deepEqual(
    (await waiting).map(({ tag, run }) => [tag, run]),
    [["e", 1]],
  );
});
