import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import type { TestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { createTestWorker, outcomesOf, type ClaimedTask } from "../http/worker-requests.ts";
import { startWithWorker, workerClient, type WorkerClient } from "./worker-client.ts";

/** A worker that holds as many leases as a type has by default, and what it means for others. */

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const HELD = 10_000;
const LEASE = 30_000;
const TICK = 1000;
const TOML = '[types.print]\nrunner = "worker"\n[types.scan]\nrunner = "worker"\n';

async function start(t: TestContext) {
  const clock = createFakeClock({ now: NOW });
  const { daemon, worker } = await startWithWorker(t, { clock, toml: TOML });
  for (let posted = 0; posted <= HELD; posted += 100) {
    await daemon.post(Array.from({ length: 100 }, () => ({ type: "print" })));
  }
  return { clock, daemon, worker };
}

async function claimAll(worker: WorkerClient): Promise<readonly ClaimedTask[]> {
  const claimed: ClaimedTask[] = [];
  for (;;) {
    const tasks = await worker.claim({ max: 100 });
    if (tasks.length === 0) return claimed;
    claimed.push(...tasks);
  }
}

function batches(tasks: readonly ClaimedTask[]): { id: string; lease_id: string }[][] {
  const refs = tasks.map(({ id, lease_id }) => ({ id, lease_id }));
  return Array.from({ length: Math.ceil(refs.length / 100) }, (_, i) =>
    refs.slice(i * 100, i * 100 + 100),
  );
}

function told({ logLines }: TestDaemon): readonly string[] {
  return logLines.filter((line) => line.includes("ran out without a heartbeat"));
}

test("a worker that holds 10,000 leases keeps them all, holds up no other, and vanishes in one line", async (t) => {
  const { clock, daemon, worker } = await start(t);
  const called = { url: daemon.url, token: worker.token };
  const held = await claimAll(worker);
  assert.equal(new Set(held.map(({ id }) => id)).size, HELD, "no more than the type's concurrency");
  assert.equal(new Set(held.map(({ lease_id }) => lease_id)).size, HELD);

  // Twice the time of a lease: without heartbeats all of them would have run out.
  for (let beat = 0; beat < 3; beat++) {
    clock.advance(LEASE - TICK);
    for (const leases of batches(held)) {
      const outcomes = await outcomesOf(called, "heartbeat", { leases });
      assert.ok(outcomes.every(({ outcome }) => outcome === "ok"));
    }
  }
  await daemon.daemon.idle();
  assert.deepEqual(told(daemon), []);
  await daemon.post({ type: "scan" });
  const other = await createTestWorker(daemon.file, ["scan"], "other");
  const neighbour = workerClient({ url: daemon.url, token: other });
  const scan = await neighbour.claimOne({ types: ["scan"] });
  assert.equal(await neighbour.complete(scan), "ok");

  const [done, ...rest] = batches(held);
  const ends = (done ?? []).map((lease) => ({ ...lease, result: 1 }));
  const completed = await outcomesOf(called, "complete", { tasks: ends });
  assert.ok(completed.every(({ outcome }) => outcome === "ok"));
  clock.advance(LEASE + TICK);
  await daemon.daemon.idle();

  assert.equal(told(daemon).length, 1);
  assert.match(told(daemon)[0] ?? "", /"leases":9900,/);
  const again = await claimAll(worker);
  assert.equal(again.length, HELD);
  const returned = new Set(rest.flat().map(({ id }) => id));
  for (const { id, run } of again) assert.equal(run, returned.has(id) ? 2 : 1);
  const late = await outcomesOf(called, "complete", {
    tasks: (rest[0] ?? []).map((lease) => ({ ...lease, result: 1 })),
  });
  assert.ok(late.every(({ outcome }) => outcome === "lost"));
});
