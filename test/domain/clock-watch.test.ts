import assert from "node:assert/strict";
import { test } from "node:test";

import type { Clock } from "../../src/domain/clock/clock.ts";
import { ClockWatch } from "../../src/domain/clock/service-clock.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const HOUR = 3_600_000;

/** A machine with three clocks that are moved separately. */
class Machine implements Clock {
  wall = NOW;
  sinceBoot = 5000;
  awake = 0;
  /** Runs right after the next reading of the wall clock. */
  afterWall: () => void = () => {};

  now(): number {
    const { wall } = this;
    const happens = this.afterWall;
    this.afterWall = () => {};
    happens();
    return wall;
  }

  monotonic(): number {
    return this.awake;
  }

  uptime(): number {
    // The uptime is coarse.
    return Math.floor(this.sinceBoot / 10) * 10;
  }

  bootId(): string {
    return "boot";
  }

  setTimer(): never {
    throw new Error("must not be called");
  }

  run(ms: number): void {
    this.wall += ms;
    this.sinceBoot += ms;
    this.awake += ms;
  }

  /** The machine sleeps: its monotonic clock stops. */
  suspend(ms: number): void {
    this.wall += ms;
    this.sinceBoot += ms;
  }

  set(byMs: number): void {
    this.wall += byMs;
  }
}

function setUp() {
  const machine = new Machine();
  const watch = new ClockWatch(machine);
  const steps: number[] = [];
  watch.watch((byMs) => steps.push(byMs));
  return { machine, watch, steps };
}

test("a wall clock that is set is reported once, with the difference", () => {
  for (const byMs of [HOUR, -HOUR, 1000, -1000, 400 * 24 * HOUR]) {
    const { machine, watch, steps } = setUp();
    machine.run(700);
    watch.now();
    machine.run(300);
    machine.set(byMs);

    assert.equal(watch.now(), NOW + 1000 + byMs);
    watch.now();
    machine.run(60_000);
    watch.now();

    assert.deepEqual(steps, [byMs]);
  }
});

test("a step is reported before the first reading after it returns, and the handler may read the clock", () => {
  const clock = createFakeClock({ now: NOW });
  const watch = new ClockWatch(clock);
  const order: string[] = [];
  watch.watch((byMs) => order.push(`step ${byMs} at ${watch.now() - NOW}`));
  clock.step(-HOUR);

  order.push(`read ${watch.now() - NOW}`);

  assert.deepEqual(order, [`step ${-HOUR} at ${-HOUR}`, `read ${-HOUR}`]);
});

test("differences under a second and a slewed clock are not steps", () => {
  const { machine, watch, steps } = setUp();
  for (const byMs of [999, -999, 1, -1]) {
    machine.set(byMs);
    watch.now();
  }
  // Ten times the speed of a slewed clock, for an hour.
  for (let second = 0; second < 3600; second++) {
    machine.run(1000);
    machine.set(5);
    watch.now();
  }

  assert.deepEqual(steps, []);
});

test("a suspend, or a day without a reading, is not a step", () => {
  const { machine, watch, steps } = setUp();
  for (const ms of [5000, HOUR, 30 * 24 * HOUR]) {
    machine.run(1234);
    machine.suspend(ms);
    watch.now();
    machine.run(ms);
    watch.now();
  }

  assert.deepEqual(steps, []);
});

test("a wall clock that is set during a suspend is reported with the difference", () => {
  const { machine, watch, steps } = setUp();
  machine.run(1234);
  machine.suspend(8 * HOUR);
  machine.set(HOUR);
  watch.now();
  machine.suspend(8 * HOUR);
  machine.set(-HOUR);
  watch.now();

  assert.deepEqual(
    steps.map((byMs) => Math.round(byMs / 100) * 100),
    [HOUR, -HOUR],
  );
});

test("a process stopped between two readings reports no step", () => {
  const { machine, watch, steps } = setUp();
  machine.afterWall = () => machine.run(20_000);

  assert.equal(watch.now(), NOW + 20_000);
  watch.now();

  assert.deepEqual(steps, []);
});

test("durations and timers are those of the wrapped clock", () => {
  const clock = createFakeClock({ now: NOW });
  const watch = new ClockWatch(clock);
  let fired = 0;
  watch.setTimer(1000, () => fired++);
  const cancelled = watch.setTimer(1000, () => fired++);
  cancelled.cancel();
  clock.advance(1500);

  assert.equal(fired, 1);
  assert.deepEqual([watch.monotonic(), watch.uptime()], [1500, 1500]);
});

test("the service clock runs during a suspend and ignores steps", () => {
  const { machine, watch } = setUp();
  const from = watch.steady();
  assert.equal(from, NOW);

  machine.run(700);
  machine.set(400 * 24 * HOUR);
  assert.equal(watch.steady(), from + 700);
  machine.set(-800 * 24 * HOUR);
  machine.run(300);
  assert.equal(watch.steady(), from + 1000);
  machine.suspend(8 * HOUR);
  const slept = watch.steady() - from - 1000;

  // The uptime is coarse.
  assert.ok(Math.abs(slept - 8 * HOUR) <= 10, String(slept));
});

test("the service clock continues from the value of an earlier process", () => {
  const { machine, watch } = setUp();
  machine.run(5000);

  watch.resumeSteady(1_000_000);

  assert.equal(watch.steady(), 1_000_000);
  machine.run(700);
  machine.set(HOUR);
  assert.equal(watch.steady(), 1_000_700);
});
