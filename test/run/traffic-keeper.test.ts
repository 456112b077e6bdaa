import assert from "node:assert/strict";
import { test } from "node:test";

import type { Logger } from "../../src/domain/log.ts";
import { createTrafficKeeper } from "../../src/run/upkeep.ts";
import { createDelayedTasks } from "../../src/run/watches.ts";
import { StoreError } from "../../src/store/store.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const NOW = Date.parse("2030-01-31T09:30:15.000Z");

function newKeeper(folds: readonly ("more" | "done" | Error)[]) {
  const calls: unknown[] = [];
  const warned: string[] = [];
  const log: Logger = { debug() {}, info() {}, warn: (_, text) => warned.push(text), error() {} };
  const left = [...folds];
  const failures: unknown[] = [];
  const keeper = createTrafficKeeper({
    cluster: { holds: () => true },
    store: {
      sampleQueues: async (sample) => void calls.push(["sample", sample]),
      foldTraffic: async (fold) => {
        calls.push(["fold", fold]);
        const next = left.shift() ?? "done";
        if (next instanceof Error) throw next;
        return next;
      },
    },
    ...{ clock: createFakeClock({ now: NOW }), log },
    failed: (error) => failures.push(error),
  });
  const tick = async (): Promise<void> => {
    keeper.wake();
    await keeper.quiet();
  };
  return { keeper, tick, calls, warned, failures };
}

test("delayed tasks are queued until none is due, in batches", async () => {
  const counts = [1000, 1000, 3];
  const due: unknown[] = [];
  const released = createDelayedTasks({
    ...{ clock: createFakeClock({ now: NOW }), giveUp: new AbortController().signal },
    log: { debug() {}, info() {}, warn() {}, error() {} },
    store: { releaseDelayed: async (step) => (due.push(step), counts.shift() ?? 0) },
    released() {},
    failed: (error) => assert.fail(String(error)),
  });
  released.wake();
  await released.quiet();
  assert.deepEqual(due, Array(3).fill({ now: NOW, max: 1000 }));
});

test("a tick samples the queues, and rolls up all whole hours that are a day old", async () => {
  const { tick, calls } = newKeeper(["more", "more"]);

  await tick();

  const minutesBefore = Date.parse("2030-01-30T08:00:00.000Z");
  const fold = ["fold", { minutesBefore }];
  assert.deepEqual(calls, [["sample", { now: NOW }], fold, fold, fold]);
});

test("a full store is logged, and called again at the next tick", async () => {
  const { tick, calls, warned, failures } = newKeeper([new StoreError("full", "no space")]);

  await tick();
  await tick();

  assert.equal(calls.length, 4);
  assert.match(warned.join(), /no space/);
  assert.deepEqual(failures, []);
});

test("an error that is not the store's is reported, and no tick begins after a stop", async () => {
  const { keeper, tick, calls, failures } = newKeeper([new TypeError("a bug")]);

  await tick();
  keeper.drain();
  await tick();

  assert.equal(calls.length, 2);
  assert.match(String(failures), /a bug/);
});
