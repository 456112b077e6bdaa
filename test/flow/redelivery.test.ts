import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import type { NewTask } from "../../src/domain/task/task.ts";
import type { NewRedeliveryOrder } from "../../src/store/store.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { deliveryFilter, newOrder, placeOrder } from "../helpers/delivery.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";
import { startProgram, temporaryFolder } from "../helpers/program.ts";
import { startReceiver, type Receiver } from "../helpers/receiver.ts";
import {
  claimLanes,
  newAttemptRecord,
  newAttemptResult,
  newFinish,
  newPost,
  newTask,
  seedAccount,
} from "../helpers/store.ts";
import { atStore } from "../http/session-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");

/** Places a bulk redelivery of all ended deliveries. */
async function order(
  { file }: { readonly file: string },
  overrides: Partial<NewRedeliveryOrder>,
): Promise<NewRedeliveryOrder> {
  const given = newOrder(overrides);
  await atStore(file, (store) => placeOrder(store, given));
  return given;
}

async function second(clock: FakeClock, { daemon }: TestDaemon): Promise<void> {
  clock.advance(1000);
  await daemon.idle();
}

/** A daemon that has delivered 25 postbacks, on a virtual clock. */
async function startDelivered(t: TestContext) {
  const clock = createFakeClock({ now: NOW });
  const receiver = await startReceiver(t);
  const daemon = await startTestDaemon(t, { clock });
  await daemon.post(
    Array.from({ length: 25 }, (_, i) => ({ postback_url: receiver.url(`/${i}?secret=1`) })),
  );
  await daemon.daemon.idle();
  assert.equal(receiver.requests.length, 25);
  return { clock, receiver, daemon };
}

/** The number of requests of each webhook. */
function counts({ requests }: Receiver): readonly number[] {
  const byId = new Map<string, number>();
  for (const { headers } of requests) {
    const id = headers["webhook-id"] ?? "";
    byId.set(id, (byId.get(id) ?? 0) + 1);
  }
  return [...byId.values()];
}

test("a bulk redelivery sends at its rate as new series, and the log holds no URL", async (t) => {
  const { clock, receiver, daemon } = await startDelivered(t);
  await order(daemon, { perSecond: 10, createdAt: clock.now() });

  const arrived: number[] = [];
  for (let i = 0; i < 4; i++) {
    await second(clock, daemon);
    arrived.push(receiver.requests.length - 25);
  }

  assert.deepEqual(arrived, [10, 20, 25, 25]);
  assert.deepEqual(new Set(counts(receiver)), new Set([2]));
  assert.deepEqual(
    new Set(receiver.requests.map(({ headers }) => headers["x-attempt"])),
    new Set(["1"]),
  );
  const [shown] = await atStore(daemon.file, (store) =>
    store.listRedeliveryOrders({ login: null, limit: 9 }),
  );
  assert.deepEqual([shown?.redelivered, shown?.endedAt], [25, clock.now() - 1000]);
  const lines = daemon.logLines.filter((line) => line.includes("redelivery order"));
  assert.equal(lines.length, 2);
  assert(!daemon.logLines.join().includes("secret=1"));
});

const SEEDED = 60;

/** Makes a file in which {@link SEEDED} deliveries to the receiver were given up. */
async function seedGivenUp(file: string, receiver: Receiver): Promise<readonly NewTask[]> {
  const host = `${receiver.host}:${receiver.port}`;
  return atStore(file, async (store) => {
    const accountId = await seedAccount(store);
    const tasks = Array.from({ length: SEEDED }, (_, i) =>
      newTask({ postback: { url: receiver.url(`/${i}`), host } }),
    );
    const now = Date.now();
    await store.insertTasks(newPost(accountId, tasks, { createdAt: now }));
    const runs = await store.claimTasks({ type: "echo", max: SEEDED, now });
    const expiresAt = now + 3_600_000;
    for (const run of runs) await store.finishTask(newFinish(run, { endedAt: now, expiresAt }));
    const decision = { state: "given_up" } as const;
    for (const attempt of await claimLanes(store, [host], { now })) {
      const result = newAttemptResult();
      await store.recordAttempt(newAttemptRecord(attempt, { decision, result, endedAt: now }));
    }
    return tasks;
  });
}

test("a bulk redelivery that kill -9 interrupts begins one new series for each delivery", async (t) => {
  const receiver = await startReceiver(t);
  const cwd = temporaryFolder(t);
  const file = join(cwd, "postbackd.db");
  const tasks = await seedGivenUp(file, receiver);
  const filter = deliveryFilter({ states: ["given_up"] });
  const given = await order({ file }, { filter, perSecond: 20, createdAt: Date.now() });
  const args = ["start", "--port", "0", "--db", file, "--allow-target", "127.0.0.1"];

  const killed = startProgram(t, args, { cwd });
  await receiver.waitFor(25);
  killed.kill("SIGKILL");
  await killed.exit;
  const program = startProgram(t, args, { cwd });
  await program.says("redelivery order ended");
  while (counts(receiver).length < SEEDED) await receiver.waitFor(receiver.requests.length + 1);
  await program.stop();

  const [shown] = await atStore(file, (store) =>
    store.listRedeliveryOrders({ login: null, limit: 9 }),
  );
  assert.deepEqual([shown?.id, shown?.redelivered], [given.id, SEEDED]);
  for (const { id } of tasks) {
    const found = await atStore(file, (store) => store.findTaskDeliveries(id));
    const [delivery] = found?.deliveries ?? [];
    assert.equal(delivery?.state, "delivered");
    // An interrupted attempt is sent again within its series.
    const series = delivery.attempts.filter(({ number }) => number === 1);
    assert.equal(series.length, 2);
    const cut = delivery.attempts.filter(({ outcome }) => outcome === "interrupted");
    assert.equal(delivery.attempts.length, series.length + cut.length);
  }
});
