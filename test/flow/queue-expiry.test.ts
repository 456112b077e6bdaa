import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { ShownTask } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { TASKS_READY, taskGet } from "../http/answer.ts";
import { startWithWorker } from "./worker-client.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;
const TOML = '[types.print]\nrunner = "worker"\n[limits]\nqueue_days = 1\n';

type World = Awaited<ReturnType<typeof startWorld>>;

/** A daemon whose tasks wait until somebody claims them, for a day at most. */
async function startWorld(t: TestContext) {
  const clock: FakeClock = createFakeClock({ now: NOW });
  const world = { clock, ...(await startWithWorker(t, { clock, toml: TOML })) };
  // The first mark is set before anything is posted.
  await world.daemon.daemon.idle();
  return world;
}

/** Stops the daemon, lets time pass, and starts one on its file. */
async function pause(t: TestContext, { daemon, worker, clock }: World, ms: number) {
  const { folder, account } = daemon;
  await daemon.daemon.stop();
  clock.jump(ms);
  const again = await startWithWorker(t, { clock, toml: TOML, folder, account, worker });
  await again.daemon.daemon.idle();
  return { ...again, clock };
}

/** Lets the daemon run for so long, with a look at the queue every hour, or as often as `stepMs` says. */
async function serve({ clock, daemon }: World, ms: number, stepMs = HOUR): Promise<void> {
  for (let left = ms; left > 0; left -= stepMs) {
    clock.jump(Math.min(stepMs, left));
    await daemon.daemon.idle();
    // What came due is looked for by the second, and swept by the minute.
    clock.advance(0);
    await daemon.daemon.idle();
  }
}

async function post({ daemon }: World, task: object = {}): Promise<string> {
  const { tasks } = await daemon.post([task]);
  return tasks[0]?.id ?? assert.fail();
}

async function look(
  { daemon }: World,
  id: string,
): Promise<Pick<ShownTask, "state" | "status_code">> {
  const { state, status_code } = await daemon.get(id);
  return { state, status_code };
}

const WAITS = { state: "queued", status_code: 40602 };
const EXPIRED = { state: "failed", status_code: 50402 };

test("a task that nobody starts fails after limits.queue_days: it is ready, its webhooks are sent, who waits is answered", async (t) => {
  const world = await startWorld(t);
  const { daemon, clock } = world;
  const receiver = await startReceiver(t);
  const id = await post(world, { tag: "late", postback_url: receiver.url() });
  await serve(world, DAY);
  assert.deepEqual(await look(world, id), WAITS);
  await serve(world, HOUR - 30_000, HOUR);
  assert.deepEqual(await look(world, id), WAITS);
  // The use of the key is written a minute after the first one: that timer is not the one to wait for.
  await daemon.call(TASKS_READY);
  const timers = clock.pending().length;
  const waiting = daemon.call(taskGet(id), { headers: { prefer: "wait=60" } });
  await clock.whenPending(timers + 1);

  clock.advance(30_000);
  const answer = await waiting;
  await daemon.daemon.idle();

  const body = await answer.text();
  const [task] = (JSON.parse(body) as { tasks: readonly (ShownTask & { started_at: null })[] })
    .tasks;
  assert(task !== undefined);
  assert.deepEqual(
    [task.state, task.status_code, task.status_message],
    ["failed", 50402, "Task Expired."],
  );
  assert.deepEqual([task.runs, task.started_at, task.result], [0, null, null]);
  assert.equal(Date.parse(task.expires_at ?? ""), clock.now() + 30 * DAY);
  assert.deepEqual(task.error, {
    message: "The task expired in the queue: it waited there for 1 day and was not started.",
    detail: { queue_days: 1 },
  });
  assert.deepEqual(
    receiver.requests.map((request) => request.rawBody.toString()),
    [body],
  );
  const { tasks } = (await (await daemon.call("/v1/appendix/user_data")).json()) as {
    tasks: object;
  };
  assert.deepEqual(tasks, { queued: 0, running: 0, completed: 0, failed: 1, cancelled: 0 });
  const lines = daemon.logLines.filter((line) => line.includes("limits.queue_days"));
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /"expired":1,"types":\["print"\]/);
  assert.deepEqual(await world.worker.claim(), []);
});

test("a task that has expired is ready until it is collected", async (t) => {
  const world = await startWorld(t);
  const id = await post(world);
  await serve(world, 25 * HOUR);

  assert.deepEqual(
    (await world.daemon.ready()).tasks.map((task) => task.id),
    [id],
  );
  await world.daemon.call(taskGet(id));
  assert.equal((await world.daemon.ready()).tasks_count, 0);
});

const STEPS = {
  "set forward by a day": DAY,
  "set back by a day": -DAY,
  "set forward by five years": 5 * YEAR,
  "set back by five years": -5 * YEAR,
};

for (const [how, byMs] of Object.entries(STEPS)) {
  test(`a clock that is ${how} neither fails a queued task early nor lets it wait for longer`, async (t) => {
    let world = await startWorld(t);
    const now = await post(world);
    await serve(world, 6 * HOUR);
    world.clock.step(byMs);
    await serve(world, 6 * HOUR);
    await world.daemon.daemon.stop();
    world.clock.step(-byMs);
    world = await pause(t, world, 0);
    await serve(world, 12 * HOUR);
    assert.deepEqual(await look(world, now), WAITS);

    await serve(world, HOUR);

    assert.deepEqual(await look(world, now), EXPIRED);
  });
}

test("the time for which the daemon was stopped does not count", async (t) => {
  let world = await startWorld(t);
  const id = await post(world);
  await serve(world, 20 * HOUR);

  world = await pause(t, world, 40 * DAY);
  await serve(world, 4 * HOUR);
  assert.deepEqual(await look(world, id), WAITS);
  await serve(world, HOUR);
  assert.deepEqual(await look(world, id), EXPIRED);
});

test("a machine that slept for a year brings no task nearer to its end than an hour", async (t) => {
  const world = await startWorld(t);
  const id = await post(world);
  await serve(world, YEAR, YEAR);
  await serve(world, 23 * HOUR);
  assert.deepEqual(await look(world, id), WAITS);

  await serve(world, HOUR);

  assert.deepEqual(await look(world, id), EXPIRED);
});

test("a daemon that is started anew every half an hour counts on", async (t) => {
  let world = await startWorld(t);
  const id = await post(world);
  for (let i = 0; i < 50; i++) {
    assert.deepEqual(await look(world, id), WAITS, `after ${i / 2} hours`);
    await serve(world, 30 * MINUTE, 30 * MINUTE);
    world = await pause(t, world, 0);
  }
  await serve(world, HOUR);
  assert.deepEqual(await look(world, id), EXPIRED);
});

test("a delayed task waits from its start_at on", async (t) => {
  const world = await startWorld(t);
  const id = await post(world, { start_at: new Date(NOW + 9.25 * HOUR).toISOString() });
  await serve(world, 33.25 * HOUR, 30 * MINUTE);
  assert.deepEqual(await look(world, id), WAITS);

  await serve(world, 1.25 * HOUR, 30 * MINUTE);

  assert.deepEqual(await look(world, id), EXPIRED);
});

test("a delayed task that a clock ahead lets into the queue waits from then on", async (t) => {
  const world = await startWorld(t);
  const id = await post(world, { start_at: new Date(NOW + 300 * DAY).toISOString() });
  await serve(world, 9.5 * HOUR, 30 * MINUTE);
  world.clock.step(YEAR);
  await serve(world, 24 * HOUR, 30 * MINUTE);
  assert.deepEqual(await look(world, id), WAITS);

  await serve(world, 1.5 * HOUR, 30 * MINUTE);

  assert.deepEqual(await look(world, id), EXPIRED);
});

test("a task that runs never expires, and one that comes back waits anew", async (t) => {
  const world = await startWorld(t);
  const { worker } = world;
  const id = await post(world);
  await serve(world, 20.5 * HOUR, 30 * MINUTE);
  const lease = await worker.claimOne();
  assert.equal(await worker.release(lease), "ok");
  await serve(world, 24 * HOUR, 30 * MINUTE);
  assert.deepEqual(await look(world, id), WAITS);
  assert.equal(await worker.heartbeat(await worker.claimOne()), "ok");

  // Its lease runs out, and it is queued again.
  await serve(world, 2 * MINUTE, MINUTE);
  await serve(world, 24 * HOUR, 30 * MINUTE);
  assert.deepEqual(await look(world, id), WAITS);
  await serve(world, 1.5 * HOUR, 30 * MINUTE);

  assert.deepEqual(await look(world, id), EXPIRED);
  assert.equal((await world.daemon.get(id)).runs, 1);
});

test("the tasks of a type that is no longer configured expire too", async (t) => {
  const world = await startWorld(t);
  const id = await post(world);
  await world.daemon.daemon.stop();
  const { folder, account } = world.daemon;
  const toml = "[limits]\nqueue_days = 1\n";
  const again = await startWithWorker(t, {
    clock: world.clock,
    toml,
    folder,
    account,
    worker: world.worker,
  });
  const without = { ...again, clock: world.clock };
  await without.daemon.daemon.idle();
  await serve(without, 24 * HOUR);
  assert.deepEqual(await look(without, id), WAITS);

  await serve(without, 2 * HOUR);

  assert.deepEqual(await look(without, id), EXPIRED);
});
