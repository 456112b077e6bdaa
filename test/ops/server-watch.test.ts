import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { LogFacts } from "../../src/domain/log.ts";
import type { DatabaseHealth } from "../../src/domain/stats/health.ts";
import { ServerWatch } from "../../src/ops/storage.ts";
import { StoreError } from "../../src/store/store.ts";
import { FakeCluster } from "../helpers/cluster.ts";
import { createFakeClock, type FakeClock } from "../helpers/fake-clock.ts";

const SOUND: DatabaseHealth = {
  ...{ version: "15.14", bytes: 1, connections: { used: 1, max: 100 }, oldestSnapshot: null },
  ...{ standbys: [], commitsWait: false, deadRows: { queue: 0, outbox: 0 } },
};
const OLD = { holder: "session", name: "report", pid: 7, ageMs: 61_000, transactions: 9 } as const;

function newWatch() {
  const clock = createFakeClock();
  const cluster = new FakeCluster(clock);
  const logged: { readonly facts: LogFacts; readonly text: string }[] = [];
  const write = (facts: LogFacts, text: string) => void logged.push({ facts, text });
  const state = { looks: 0, health: async (): Promise<DatabaseHealth | null> => SOUND };
  const findDatabaseHealth = () => {
    state.looks++;
    return state.health();
  };
  const watch = new ServerWatch({
    store: { cluster, findDatabaseHealth },
    clock,
    log: { debug: write, info: write, warn: write, error: write },
  });
  return { clock, cluster, logged, state, watch };
}

/** Lets minutes pass with their checks. */
async function pass(clock: FakeClock, minutes: number): Promise<void> {
  await setImmediate();
  for (let i = 0; i < minutes; i++) {
    clock.advance(MINUTE_MS);
    await setImmediate();
  }
}

const old = async () => ({ ...SOUND, oldestSnapshot: OLD });

test("a fault of PostgreSQL is logged once, and again each hour", async () => {
  const { clock, logged, state, watch } = newWatch();
  state.health = old;
  watch.start();
  await pass(clock, 59);
  assert.equal(state.looks, 1 + 59 * 12);
  assert.equal(logged.length, 1);
  assert.deepEqual(logged[0]?.facts, OLD);
  assert.deepEqual(watch.warnings(), [logged[0]?.text]);

  await pass(clock, 1);
  assert.equal(logged.length, 2);

  state.health = async () => SOUND;
  await pass(clock, 120);
  assert.equal(logged.length, 2);
  assert.deepEqual(watch.warnings(), []);
});

test("every node shows a fault of PostgreSQL, and the sweep node logs it", async () => {
  const { clock, cluster, logged, state, watch } = newWatch();
  cluster.roles = [];
  state.health = old;
  watch.start();
  await pass(clock, 1);
  assert.equal(watch.warnings().length, 1);
  assert.deepEqual(logged, []);

  cluster.roles = ["sweep"];
  await pass(clock, 1);
  assert.equal(logged.length, 1);
});

test("an unreachable PostgreSQL is checked again, and shows no fault", async () => {
  const { clock, logged, state, watch } = newWatch();
  state.health = old;
  watch.start();
  await pass(clock, 0);
  state.health = () => Promise.reject(new StoreError("unreachable", "no server"));
  await pass(clock, 1);
  assert.deepEqual(watch.warnings(), []);
  assert.equal(logged.length, 1);

  state.health = () => Promise.reject(new Error("a bug"));
  await pass(clock, 1);
  assert.match(logged[1]?.text ?? "", /could not be read/);
  state.health = old;
  await pass(clock, 1);
  assert.equal(watch.warnings().length, 1);
});

test("a closed watch does not check", async () => {
  const { clock, state, watch } = newWatch();
  watch.start();
  await pass(clock, 0);
  watch.close();
  await pass(clock, 5);
  assert.equal(state.looks, 1);
  const early = newWatch();
  early.watch.start();
  early.watch.close();
  await pass(early.clock, 5);
  assert.equal(early.state.looks, 1);
});
