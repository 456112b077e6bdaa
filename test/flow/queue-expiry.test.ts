import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { ShownTask } from "../helpers/daemon.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { taskGet } from "../http/answer.ts";
import { DAY, HOUR, MINUTE, NOW, PRINT, World, YEAR } from "./world.ts";

/** A daemon whose tasks wait for a worker, for a day at most. */
async function start(t: TestContext): Promise<World> {
  const world = await World.start(t, { toml: `${PRINT}[limits]\nqueue_days = 1\n` });
  // The first queue checkpoint comes before the first post.
  await world.daemon.daemon.idle();
  return world;
}

/** Lets the daemon run for `ms`, in steps of an hour. */
async function serve(world: World, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= HOUR) await world.jump(Math.min(HOUR, left));
}

async function look({ daemon }: World, id: string): Promise<readonly unknown[]> {
  const { state, status_code: code } = await daemon.get(id);
  return [state, code];
}

const WAITS = ["queued", 40602];
const EXPIRED = ["failed", 50402];

test("a task that no worker claims fails after limits.queue_days with 50402, and its webhook is sent", async (t) => {
  const world = await start(t);
  const { daemon, clock } = world;
  const receiver = await startReceiver(t);
  const id = await world.post({ tag: "late", postback_url: receiver.url() });
  await serve(world, DAY);
  assert.deepEqual(await look(world, id), WAITS);
  await serve(world, HOUR - 30_000);
  assert.deepEqual(await look(world, id), WAITS);
  await serve(world, 30_000);

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
  assert.deepEqual(await (await world.worker()).claim(), []);
});

test("a clock that is set, while the daemon runs and while it is stopped, moves no expiry of a queued task", async (t) => {
  const world = await start(t);
  const id = await world.post();
  await serve(world, 6 * HOUR);
  world.clock.step(-5 * YEAR);
  await serve(world, 6 * HOUR);
  await world.restart(() => world.clock.step(10 * YEAR));
  await serve(world, 6 * HOUR);
  world.clock.step(-5 * YEAR);
  await serve(world, 6 * HOUR);
  assert.deepEqual(await look(world, id), WAITS);

  await serve(world, HOUR);

  assert.deepEqual(await look(world, id), EXPIRED);
});

test("a suspend of a year counts as one hour in the queue", async (t) => {
  const world = await start(t);
  const id = await world.post();
  await world.jump(YEAR);
  await serve(world, 23 * HOUR);
  assert.deepEqual(await look(world, id), WAITS);

  await serve(world, HOUR);

  assert.deepEqual(await look(world, id), EXPIRED);
});

test("the time in the queue adds up over restarts, and stopped time does not count", async (t) => {
  const world = await start(t);
  const id = await world.post();
  for (let i = 0; i < 4; i++) {
    await serve(world, 50 * MINUTE);
    await world.restart(() => world.clock.jump(DAY));
    await world.daemon.daemon.idle();
  }
  await serve(world, 20 * HOUR + 40 * MINUTE);
  assert.deepEqual(await look(world, id), WAITS);

  await serve(world, 2 * HOUR);

  assert.deepEqual(await look(world, id), EXPIRED);
});

for (const [how, startAfter, stepMs] of [
  ["waits from its start_at", 9.25 * HOUR, 0],
  ["waits from the moment at which the clock is set past its start_at", 300 * DAY, YEAR],
] as const) {
  test(`a delayed task ${how}`, async (t) => {
    const world = await start(t);
    const id = await world.post({ start_at: new Date(NOW + startAfter).toISOString() });
    await serve(world, 9.25 * HOUR);
    world.clock.step(stepMs);
    await serve(world, 24 * HOUR);
    assert.deepEqual(await look(world, id), WAITS);

    await serve(world, 1.5 * HOUR);

    assert.deepEqual(await look(world, id), EXPIRED);
  });
}

test("a running task never expires, and a task that returns to the queue waits again", async (t) => {
  const world = await start(t);
  const worker = await world.worker();
  const id = await world.post();
  await serve(world, 20.5 * HOUR);
  assert.equal(await worker.release(await worker.claimOne()), "ok");
  await serve(world, 24 * HOUR);
  assert.deepEqual(await look(world, id), WAITS);
  assert.equal(await worker.heartbeat(await worker.claimOne()), "ok");

  // Its lease runs out, and it is queued again.
  await world.jump(MINUTE);
  await world.jump(MINUTE);
  await serve(world, 24 * HOUR);
  assert.deepEqual(await look(world, id), WAITS);
  await serve(world, 1.5 * HOUR);

  assert.deepEqual(await look(world, id), EXPIRED);
  assert.equal((await world.daemon.get(id)).runs, 1);
});
