import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { createTestAccount, type TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import type { ClaimedTask } from "../http/worker-requests.ts";
import { startWithWorker, type WorkerClient } from "./worker-client.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const HOUR = 3_600_000;
// Leases that run out are looked for by the second.
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

/** The same file served by another process, at the same time of the clock. */
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

test("what a worker completes is the task's result and goes out as its webhook", async (t) => {
  const { daemon, worker } = await start(t);
  const receiver = await startReceiver(t);
  const { tasks } = await daemon.post({
    ...{ type: "print", input: { pages: 3 }, tag: "t" },
    postback_url: receiver.url("/hook"),
  });
  const [posted] = tasks;
  assert(posted);
  const task = await worker.claimOne();
  assert.deepEqual(
    [task.id, task.type, task.tag, task.input, task.run],
    [posted.id, "print", "t", { pages: 3 }, 1],
  );
  assert.equal(task.lease_expires_at, new Date(NOW + LEASE).toISOString());
  assert.equal((await daemon.get(task.id)).state, "running");
  assert.equal(await worker.complete(task, { printed: 3 }), "ok");
  await daemon.daemon.idle();
  const shown = await daemon.get(task.id);
  assert.deepEqual([shown.state, shown.result, shown.runs], ["completed", { printed: 3 }, 1]);
  assert.equal(receiver.requests.length, 1);
});

test("completing again with the same lease is ok and changes nothing", async (t) => {
  const { daemon, worker, task } = await startLeased(t);
  assert.equal(await worker.complete(task, "first"), "ok");
  assert.equal(await worker.complete(task, "second"), "ok");
  assert.equal((await daemon.get(task.id)).result, "first");
  assert.equal(await worker.fail(task), "lost");
});

test("a lease that nobody kept returns its task to the queue, the run counted, and is lost once it is claimed again", async (t) => {
  const setup = await startLeased(t);
  const { daemon, worker, task } = setup;
  await pass(setup, LEASE - 1);
  assert.equal((await daemon.get(task.id)).state, "running");
  await pass(setup, TICK);
  const queued = await daemon.get(task.id);
  assert.deepEqual([queued.state, queued.status_code, queued.runs], ["queued", 40602, 1]);
  const again = await worker.claimOne();
  assert.deepEqual([again.id, again.run], [task.id, 2]);
  assert.notEqual(again.lease_id, task.lease_id);
  assert.equal(await worker.heartbeat(task), "lost");
  assert.equal(await worker.complete(task, "late"), "lost");
  assert.equal(await worker.fail(task), "lost");
  assert.equal(await worker.release(task), "lost");
  assert.equal(await worker.complete(again, "in time"), "ok");
  const shown = await daemon.get(task.id);
  assert.deepEqual([shown.result, shown.runs], ["in time", 2]);
});

test("a late completion is accepted while nobody has claimed the task again", async (t) => {
  const setup = await startLeased(t);
  const { daemon, worker, task } = setup;
  await pass(setup, LEASE + TICK);
  assert.equal(await worker.complete(task, "late"), "ok");
  assert.equal((await daemon.get(task.id)).result, "late");
  assert.deepEqual(await worker.claim(), []);
});

test("a late heartbeat takes the task out of the queue again, and its lease is watched as before", async (t) => {
  const setup = await startLeased(t, `${PRINT}concurrency = 1\n`);
  const { daemon, worker, task } = setup;
  await pass(setup, LEASE + TICK);
  assert.equal(await worker.heartbeat(task), "ok");
  assert.equal((await daemon.get(task.id)).state, "running");
  await daemon.post({ type: "print" });
  assert.deepEqual(await worker.claim(), [], "the one lease that there may be is held");
  await pass(setup, LEASE + TICK);
  assert.equal((await daemon.get(task.id)).state, "queued");
  assert.equal((await worker.claim({ max: 9 })).length, 1);
});

test("heartbeats keep a lease for as long as they come", async (t) => {
  const setup = await startLeased(t);
  for (let beat = 0; beat < 10; beat++) {
    await pass(setup, LEASE - TICK);
    assert.equal(await setup.worker.heartbeat(setup.task), "ok");
  }
  const shown = await setup.daemon.get(setup.task.id);
  assert.deepEqual([shown.state, shown.runs], ["running", 1]);
});

test("a task with which five workers vanish fails, whatever its type's retries", async (t) => {
  const setup = await start(t, `${PRINT}retries = 50\n`);
  const { daemon, worker } = setup;
  const { tasks } = await daemon.post({ type: "print" });
  const id = tasks[0]?.id ?? "";
  for (let run = 1; run <= 5; run++) {
    assert.equal((await daemon.get(id)).state, "queued");
    assert.equal((await worker.claimOne()).run, run);
    await pass(setup, LEASE + TICK);
  }
  const shown = await daemon.get(id);
  assert.deepEqual([shown.state, shown.status_code, shown.runs], ["failed", 50010, 5]);
  assert.match(shown.error?.message ?? "", /^5 workers in a row vanished/);
  const told = daemon.logLines.map((line) => /ran out without|in a row vanished/.exec(line)?.[0]);
  const lost = Array.from({ length: 4 }, () => "ran out without");
  assert.deepEqual(told.filter(Boolean), [...lost, "in a row vanished"]);
  assert.deepEqual(await worker.claim(), []);
});

test("the type's timeout ends a run although heartbeats come, and is tried again as often as the type says", async (t) => {
  const setup = await start(t, `${PRINT}timeout = "60s"\nretries = 1\n`);
  const { daemon, worker } = setup;
  await daemon.post({ type: "print" });
  let last: ClaimedTask | null = null;
  for (const run of [1, 2]) {
    const task = await worker.claimOne();
    last = task;
    assert.equal(task.run, run);
    for (let beat = 0; beat < 2; beat++) {
      await pass(setup, LEASE - 500);
      assert.equal(await worker.heartbeat(task), "ok");
    }
    await pass(setup, TICK + 1000);
    assert.equal(await worker.heartbeat(task), "lost");
    assert.equal(await worker.complete(task), "lost");
    await pass(setup, 2 * TICK);
  }
  const shown = await daemon.get(last?.id ?? "");
  assert.deepEqual([shown.state, shown.status_code], ["failed", 50401]);
  assert.equal(shown.error?.message, "The worker ran past its timeout of 60 s.");
});

test("leases survive a restart, also one that comes long after they would have run out", async (t) => {
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

test("a lease that nobody keeps after a restart runs out a lease's time after it", async (t) => {
  const setup = await startLeased(t);
  const after = await restart(t, setup, { stoppedMs: 60_000 });
  await pass(after, LEASE + TICK);
  assert.equal((await after.daemon.get(setup.task.id)).state, "queued");
});

test("leases of a type that is configured no more are held and end all the same", async (t) => {
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
  assert.equal((await daemon.get(third.id)).error?.message, "The worker ran past its timeout.");
});

test("a clock that is set forward or back neither ends a lease nor prolongs it", async (t) => {
  for (const byMs of [HOUR, -HOUR]) {
    const setup = await startLeased(t);
    const { clock, daemon, worker, task } = setup;
    await pass(setup, 10_000);
    clock.step(byMs);
    await pass(setup, 19_000);
    assert.equal((await daemon.get(task.id)).state, "running");
    assert.equal(await worker.heartbeat(task), "ok");
    clock.step(byMs);
    await pass(setup, LEASE + 2 * TICK);
    assert.equal((await daemon.get(task.id)).state, "queued");
  }
});

test("a cancelled task is told to its worker, its result counts no more, and its place is free", async (t) => {
  const setup = await startLeased(t, `${PRINT}concurrency = 1\n`);
  const { daemon, worker, task } = setup;
  await daemon.post({ type: "print", input: "next" });
  assert.deepEqual(await worker.claim(), []);
  await daemon.call(`/v1/tasks/task_cancel/${task.id}`, { method: "POST" });
  assert.equal(await worker.heartbeat(task), "cancelled");
  assert.equal(await worker.complete(task), "cancelled");
  assert.equal(await worker.fail(task), "cancelled");
  assert.equal(await worker.release(task), "cancelled");
  assert.equal((await daemon.get(task.id)).state, "cancelled");
  assert.equal((await worker.claimOne()).input, "next");
  await pass(setup, LEASE + TICK);
  assert.equal((await daemon.get(task.id)).state, "cancelled");
});

test("what is given back is queued again as if it had not been started", async (t) => {
  const { daemon, worker, task } = await startLeased(t);
  assert.equal(await worker.release(task), "ok");
  const shown = await daemon.get(task.id);
  assert.deepEqual([shown.state, shown.runs], ["queued", 0]);
  assert.equal((await worker.claimOne()).run, 1);
});

test("a failed run is tried again as the type says, and the worker may wish otherwise", async (t) => {
  const setup = await startLeased(t, `${PRINT}retries = 1\n`);
  const { daemon, worker, task } = setup;
  assert.equal(await worker.fail(task), "ok");
  assert.equal((await daemon.get(task.id)).state, "queued");
  assert.deepEqual(await worker.claim(), []);
  await pass(setup, TICK);
  assert.equal(await worker.fail(await worker.claimOne(), { retry: true }), "ok");
  await pass(setup, 2 * TICK);
  assert.equal(await worker.fail(await worker.claimOne(), { detail: { tray: 2 } }), "ok");
  const shown = await daemon.get(task.id);
  assert.deepEqual([shown.status_code, shown.runs], [50010, 3]);
  assert.deepEqual(shown.error, { message: "out of paper", detail: { tray: 2 } });
});

test("progress is shown while the run lasts", async (t) => {
  const setup = await startLeased(t);
  const { daemon, worker, task } = setup;
  const progress = { progress: 0.5, note: "page 2" };
  assert.equal(await worker.heartbeat(task, { progress }), "ok");
  const shown = async () => {
    const response = await daemon.call(`/v1/tasks/task_get/${task.id}?collect=false`);
    const { tasks } = (await response.json()) as { tasks: readonly { progress: unknown }[] };
    return tasks[0]?.progress;
  };
  assert.deepEqual(await shown(), progress);
  await pass(setup, LEASE + TICK);
  assert.equal(await shown(), null);
  const again = await worker.claimOne();
  assert.equal(await worker.heartbeat(task, { progress }), "lost");
  assert.equal(await shown(), null);
  await worker.complete(again);
  assert.equal(await shown(), null);
});

test("a worker that waits is given what is posted, and nothing when the daemon stops", async (t) => {
  const { clock, daemon, worker } = await start(t);
  const waiting = worker.claim({ wait_seconds: 30 });
  const { tasks } = await daemon.post({ type: "print" });
  assert.deepEqual(
    (await waiting).map(({ id }) => id),
    [tasks[0]?.id],
  );
  const timers = clock.pending().length;
  const last = worker.claim({ wait_seconds: 30 });
  await clock.whenPending(timers + 1);
  const [told] = await Promise.all([last, daemon.daemon.stop()]);
  assert.deepEqual(told, []);
});

test("workers get tasks by priority, then by age, and none before its start_at", async (t) => {
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

test("one account's two thousand tasks do not hold up another's ten", async (t) => {
  const { daemon, worker } = await start(t);
  for (let i = 0; i < 20; i++) {
    await daemon.post(Array.from({ length: 100 }, () => ({ type: "print", priority: 9 })));
  }
  const other = await createTestAccount(daemon.file, "other");
  const ten = Array.from({ length: 10 }, (_, i) => ({ type: "print", input: i, tag: "other" }));
  await daemon.call("/v1/tasks/task_post", {
    ...{ method: "POST", body: JSON.stringify(ten) },
    headers: { authorization: `Bearer ${other.key}`, "content-type": "application/json" },
  });
  const claimed: ClaimedTask[] = [];
  for (let i = 0; i < 21; i++) claimed.push(await worker.claimOne());
  const inputs = claimed.filter(({ tag }) => tag === "other").map(({ input }) => input);
  assert.deepEqual(inputs, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});
