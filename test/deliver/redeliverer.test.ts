import assert from "node:assert/strict";
import { test } from "node:test";

import { createRedeliverer } from "../../src/deliver/redeliverer.ts";
import type { Logger } from "../../src/domain/log.ts";
import { StoreError, type RedeliveryOrder, type RedeliveryStep } from "../../src/store/store.ts";
import { newOrder } from "../helpers/delivery.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

/** A bulk redelivery of the store below, with the number of deliveries left. */
interface StoredOrder {
  readonly id: string;
  readonly perSecond: number;
  left: number;
}

// Half a second after a full second, to test ticks around the next one.
const NOW = Date.parse("2030-01-31T09:00:00.500Z");
const STEP_MAX = 4;

function toOpen({ id, perSecond }: Pick<StoredOrder, "id" | "perSecond">): RedeliveryOrder {
  return { ...newOrder({ id, perSecond }), redelivered: 0, endedAt: null, isCancelled: false };
}

/** A redeliverer on a store that starts up to {@link STEP_MAX} deliveries in a step. */
function start(orders: StoredOrder[]) {
  const clock = createFakeClock({ now: NOW });
  const stop = new AbortController();
  /** The deliveries started in each second, by bulk redelivery. */
  const begun: Record<string, number> = {};
  const steps: RedeliveryStep[] = [];
  const faults: unknown[] = [];
  const woken: string[] = [];
  const lines: unknown[] = [];
  const log: Logger = {
    debug: () => {},
    info: (facts) => void lines.push(facts),
    warn: (facts) => void lines.push(facts),
    error: () => {},
  };
  const store = {
    listOpenRedeliveryOrders: async ({ limit }: { limit: number }) =>
      orders.slice(0, limit).map(toOpen),
    stepRedeliveryOrder: async (step: { id: string; max: number; now: number }) => {
      const order = orders.find(({ id }) => id === step.id);
      if (order === undefined) return { lanes: [], redelivered: 0, isDone: true };
      const redelivered = Math.min(STEP_MAX, step.max, order.left);
      order.left -= redelivered;
      const second = `${step.id} ${Math.floor((step.now - NOW + 500) / 1000)}`;
      begun[second] = (begun[second] ?? 0) + redelivered;
      const isDone = order.left === 0;
      if (isDone) orders.splice(orders.indexOf(order), 1);
      const lane = { accountId: 1, host: `${step.id}.example` };
      const answer = { lanes: redelivered > 0 ? [lane] : [], redelivered, isDone };
      steps.push(answer);
      return answer;
    },
  };
  const redeliverer = createRedeliverer({
    ...{ store, clock, log, giveUp: stop.signal },
    deliveriesDue: (lanes) => void woken.push(...lanes.map(({ host }) => host)),
    failed: (error) => void faults.push(error),
  });
  const tick = async (): Promise<void> => {
    redeliverer.wake();
    await redeliverer.quiet();
  };
  return { redeliverer, store, clock, stop, begun, steps, faults, woken, lines, tick };
}

test("repeated ticks, late ticks and ticks after a suspend cause no burst", async () => {
  const { clock, begun, tick, redeliverer } = start([{ id: "a", perSecond: 10, left: 1000 }]);

  await tick();
  await tick();
  clock.advance(499);
  await tick();
  clock.jump(20_001);
  for (let i = 0; i < 20; i++) redeliverer.wake();
  await redeliverer.quiet();
  await tick();
  // The wall clock is set back into a used-up second.
  clock.step(-1000);
  await tick();

  assert.deepEqual(begun, { "a 0": 10, "a 21": 10, "a 20": 10 });
});

test("bulk redeliveries run concurrently, each at its own rate, and wake their lanes", async () => {
  const { clock, begun, woken, tick, redeliverer, faults } = start([
    { id: "slow", perSecond: 1, left: 4 },
    { id: "b", perSecond: 5, left: 6 },
    { id: "c", perSecond: 1000, left: 30 },
  ]);

  for (let second = 0; second < 5; second++) {
    await tick();
    clock.advance(1000);
  }

  const slow = { "slow 0": 1, "slow 1": 1, "slow 2": 1, "slow 3": 1 };
  assert.deepEqual(begun, { ...slow, "b 0": 5, "b 1": 1, "c 0": 30 });
  assert.deepEqual(new Set(woken), new Set(["slow.example", "b.example", "c.example"]));
  assert.equal(redeliverer.isIdle(), true);
  assert.deepEqual(faults, []);
});

test("bulk redeliveries that find little take turns within the steps of a second", async () => {
  const { store, clock, tick } = start([]);
  const asked: Record<string, number> = {};
  const ids = Array.from({ length: 40 }, (_, i) => `order-${i}`);
  store.listOpenRedeliveryOrders = async () => ids.map((id) => toOpen({ id, perSecond: 10 }));
  store.stepRedeliveryOrder = async ({ id }) => {
    asked[id] = (asked[id] ?? 0) + 1;
    return { lanes: [], redelivered: 0, isDone: false };
  };

  await tick();
  await tick();
  assert.equal(sum(Object.values(asked)), 250);
  assert.ok(Object.values(asked).every((steps) => steps === 6 || steps === 7));
  for (let second = 0; second < 39; second++) {
    clock.advance(1000);
    await tick();
  }

  assert.equal(sum(Object.values(asked)), 40 * 250);
  assert.ok(Math.max(...Object.values(asked)) - Math.min(...Object.values(asked)) <= 20);
});

test("only the hundred oldest bulk redeliveries run", async () => {
  const orders = Array.from({ length: 130 }, (_, i) => ({ id: `${i}`, perSecond: 1, left: 2 }));
  const { clock, begun, tick } = start(orders);

  await tick();
  const first = Object.keys(begun);
  for (let second = 0; second < 5; second++) {
    clock.advance(1000);
    await tick();
  }

  assert.deepEqual(new Set(first), new Set(Array.from({ length: 100 }, (_, i) => `${i} 0`)));
  assert.equal(sum(Object.values(begun)), 260);
});

test("no step runs without an open bulk redelivery, or for a rate of zero", async () => {
  const orders = [{ id: "never", perSecond: 0, left: 5 }];
  const { steps, tick } = start(orders);

  await tick();
  orders.length = 0;
  await tick();

  assert.deepEqual(steps, []);
});

test("a cancelled bulk redelivery ends at the next step, and others go on", async () => {
  const orders = [
    { id: "a", perSecond: 4, left: 99 },
    { id: "b", perSecond: 4, left: 5 },
  ];
  const { clock, begun, lines, tick } = start(orders);

  await tick();
  orders.shift();
  clock.advance(1000);
  await tick();

  assert.deepEqual(begun, { "a 0": 4, "b 0": 4, "b 1": 1 });
  assert.deepEqual(lines, [
    { order: "a", redelivered: 0, per_second: 4 },
    { order: "b", redelivered: 0, per_second: 4 },
    { order: "a", redelivered: 4 },
    { order: "b", redelivered: 5 },
  ]);
});

test("no step begins after a drain, which waits for the current step", async () => {
  const { redeliverer, store, steps, tick } = start([{ id: "a", perSecond: 1000, left: 1000 }]);
  const gate = Promise.withResolvers<void>();
  const step = store.stepRedeliveryOrder;
  store.stepRedeliveryOrder = async (given) => {
    await gate.promise;
    return step(given);
  };

  redeliverer.wake();
  await new Promise(setImmediate);
  assert.equal(redeliverer.isIdle(), false);
  redeliverer.drain();
  gate.resolve();
  await redeliverer.quiet();
  await tick();

  assert.equal(steps.length, 1);
  assert.equal(redeliverer.isIdle(), true);
});

test("a failed store is reported once, and a stop ends the wait for a full store", async () => {
  const broken = start([{ id: "a", perSecond: 4, left: 4 }]);
  broken.store.stepRedeliveryOrder = () => Promise.reject(new StoreError("failed", "I/O error"));
  await broken.tick();
  assert.equal(broken.faults.length, 1);

  const full = start([{ id: "a", perSecond: 4, left: 4 }]);
  full.store.stepRedeliveryOrder = () => Promise.reject(new StoreError("full", "no space"));
  full.redeliverer.wake();
  await full.clock.whenPending(1);
  full.redeliverer.drain();
  full.stop.abort();
  await full.redeliverer.quiet();
  assert.equal(full.redeliverer.isIdle(), true);
});

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
