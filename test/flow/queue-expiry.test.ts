import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { ShownTask } from "../helpers/daemon.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { taskGet } from "../http/answer.ts";
import { startWithWorker } from "./worker-client.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;
const TOML = '[types.print]\nrunner = "worker"\n[limits]\nqueue_days = 1\n';

type World = Awaited<ReturnType<typeof startWorld>>;

/** A daemon whose tasks wait for a worker, for a day at most. */
async function startWorld(t: TestContext) {
  const clock: FakeClock = createFakeClock({ now: NOW });
  const world = { clock, ...(await startWithWorker(t, { clock, toml: TOML })) };
  // The first queue checkpoint comes before the first post.
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

/** Lets the daemon run for `ms`, in steps of an hour by default. */
async function serve({ clock, daemon }: World, ms: number, stepMs = HOUR): Promise<void> {
  for (let left = ms; left > 0; left -= stepMs) {
    clock.jump(Math.min(stepMs, left));
    await daemon.daemon.idle();
    // Ticks find due work each second, and expire each minute.
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

test("a task that no worker claims fails after limits.queue_days with 50402, and its webhook is sent", async (t) => {
  const world = await startWorld(t);
  const { daemon, clock } = world;
  const receiver = await startReceiver(t);
  const id = await post(world, { tag: "late", postback_url: receiver.url() });
  await serve(world, DAY);
  assert.deepEqual(await look(world, id), WAITS);
  await serve(world, HOUR - 30_000, HOUR);
  assert.deepEqual(await look(world, id), WAITS);
  await serve(world, 30_000, 30_000);

  const body = await (await daemon.call(taskGet(id))).text();
  const [task] = (JSON.parse(body) as { tasks: readonly (ShownTask & { started_at: null })[] })
    .tasks;
  assert(task !== undefined);
  assert.deepEqual([task.state, task.status_code], ["failed", 50402]);
  assert.deepEqual([task.runs, task.started_at, task.result], [0, null, null]);
  assert.equal(Date.parse(task.expires_at ?? ""), clock.now() + 30 * DAY);
  assert.deepEqual(task.error?.detail, { queue_days: 1 });
  assert.deepEqual(
    receiver.requests.map((request) => request.rawBody.toString()),
    [body],
  );
  const lines = daemon.logLines.filter((line) => line.includes("limits.queue_days"));
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? "", /"expired":1,"types":\["print"\]/);
  assert.deepEqual(await world.worker.claim(), []);
});

const STEPS = { "five years ahead": 5 * YEAR, "five years back": -5 * YEAR };

for (const [how, byMs] of Object.entries(STEPS)) {
  test(`a clock set ${how} moves no expiry of a queued task`, async (t) => {
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

test("a suspend of a year counts as one hour in the queue", async (t) => {
  const world = await startWorld(t);
  const id = await post(world);
  await serve(world, YEAR, YEAR);
  await serve(world, 23 * HOUR);
  assert.deepEqual(await look(world, id), WAITS);

  await serve(world, HOUR);

  assert.deepEqual(await look(world, id), EXPIRED);
});

test("the time in the queue adds up over restarts, and stopped time does not count", async (t) => {
  let world = await startWorld(t);
  const id = await post(world);
  for (let i = 0; i < 10; i++) {
    await serve(world, 30 * MINUTE, 30 * MINUTE);
    world = await pause(t, world, DAY);
  }
  await serve(world, 19 * HOUR);
  assert.deepEqual(await look(world, id), WAITS);

  await serve(world, 2 * HOUR);

  assert.deepEqual(await look(world, id), EXPIRED);
});

test("a delayed task expires limits.queue_days after its start_at", async (t) => {
  const world = await startWorld(t);
  const id = await post(world, { start_at: new Date(NOW + 9.25 * HOUR).toISOString() });
  await serve(world, 33.25 * HOUR, 30 * MINUTE);
  assert.deepEqual(await look(world, id), WAITS);

  await serve(world, 1.25 * HOUR, 30 * MINUTE);

  assert.deepEqual(await look(world, id), EXPIRED);
});

test("a clock that is set past start_at starts the wait of a delayed task", async (t) => {
  const world = await startWorld(t);
  const id = await post(world, { start_at: new Date(NOW + 300 * DAY).toISOString() });
  await serve(world, 9.5 * HOUR, 30 * MINUTE);
  world.clock.step(YEAR);
  await serve(world, 24 * HOUR, 30 * MINUTE);
  assert.deepEqual(await look(world, id), WAITS);

  await serve(world, 1.5 * HOUR, 30 * MINUTE);

  assert.deepEqual(await look(world, id), EXPIRED);
});

test("a running task never expires, and a task that returns to the queue waits again", async (t) => {
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
