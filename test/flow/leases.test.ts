import assert from "node:assert/strict";
import { test } from "node:test";

import { HOUR, MINUTE, NOW, PRINT, SECOND, World } from "./world.ts";

// A tick each second ends leases that ran out.
const LEASE = 30 * SECOND;

test("a lease survives a restart, also one that comes long after its end", async (t) => {
  const world = await World.start(t, { toml: PRINT });
  await world.post({ input: { pages: 3 } });
  const task = await (await world.worker()).claimOne();
  await world.restart(() => world.clock.advance(HOUR));
  await world.daemon.daemon.idle();
  assert.equal((await world.daemon.get(task.id)).state, "running");
  const worker = await world.worker();
  assert.deepEqual(await worker.claim(), []);
  await world.advance(LEASE - 1);
  assert.equal(await worker.heartbeat(task), "ok");
  await world.restart();
  const again = await world.worker();
  assert.equal(await again.complete(task, "through two restarts"), "ok");
  const shown = await world.daemon.get(task.id);
  assert.deepEqual([shown.result, shown.runs], ["through two restarts", 1]);
});

test("leases of a type that is no longer configured hold, time out and end", async (t) => {
  const toml = `${PRINT}retries = 9\ntimeout = "60s"\n`;
  const world = await World.start(t, { toml });
  await world.daemon.post([1, 2, 3, 4].map((input) => ({ type: "print", input })));
  const [first, second, third, fourth] = await (await world.worker()).claim({ max: 4 });
  assert(first && second && third && fourth);
  await world.restart(undefined, { toml: '[types.other]\nrunner = "echo"\n' });
  const { daemon } = world;
  const worker = await world.worker();
  assert.equal(await worker.complete(first), "ok");
  assert.equal(await worker.fail(second), "ok");
  await world.advance(LEASE - 1);
  assert.equal(await worker.heartbeat(third), "ok");
  await world.advance(LEASE - 1);
  assert.equal(await worker.heartbeat(third), "ok");
  await world.advance(SECOND);
  const states = [];
  for (const { id } of [first, second, third, fourth]) states.push((await daemon.get(id)).state);
  assert.deepEqual(states, ["completed", "failed", "failed", "queued"]);
  assert.equal((await daemon.get(third.id)).status_code, 50401);
});

test("a worker claims tasks by priority, then by age, and none before its start_at", async (t) => {
  const world = await World.start(t, { toml: PRINT });
  const { daemon } = world;
  const worker = await world.worker();
  const later = new Date(NOW + MINUTE).toISOString();
  const posted = [{ tag: "c" }, { tag: "d" }, { tag: "a", priority: 9 }, { tag: "b", priority: 1 }];
  const delayed = { tag: "e", priority: 9, start_at: later };
  await daemon.post([delayed, ...posted].map((task) => ({ type: "print", ...task })));
  const tags = async () => (await worker.claim({ max: 100 })).map(({ tag }) => tag).join("");

  assert.equal(await tags(), "abcd");
  await world.advance(59 * SECOND);
  await worker.claim({ max: 100 });
  const waiting = worker.claim({ max: 1, wait_seconds: 30 });
  await world.advance(SECOND);
  assert.deepEqual(
    (await waiting).map(({ tag, run }) => [tag, run]),
    [["e", 1]],
  );
});
