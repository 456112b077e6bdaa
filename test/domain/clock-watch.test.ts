import assert from "node:assert/strict";
import { test } from "node:test";

import type { Clock } from "../../src/domain/clock/clock.ts";
import { ClockWatch } from "../../src/domain/clock/service-clock.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const HOUR = 3_600_000;

/** A machine whose three times are moved one by one. */
class Machine implements Clock {
  wall = NOW;
  sinceBoot = 5000;
  awake = 0;
  /** What happens right after the next reading of the wall clock. */
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
    // It is coarse.
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

  /** The machine sleeps: its monotonic time stands still. */
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

test("a clock that is set forward or back is told once, by how much", () => {
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

test("the step is told before the first reading after it answers, and that reading may be asked for inside", () => {
  const clock = createFakeClock({ now: NOW });
  const watch = new ClockWatch(clock);
  const order: string[] = [];
  watch.watch((byMs) => order.push(`told ${byMs} at ${watch.now() - NOW}`));
  clock.step(-HOUR);

  order.push(`answered ${watch.now() - NOW}`);

  assert.deepEqual(order, [`told ${-HOUR} at ${-HOUR}`, `answered ${-HOUR}`]);
});

test("steps under a second and a clock that is slewed are none", () => {
  const { machine, watch, steps } = setUp();
  for (const byMs of [999, -999, 1, -1]) {
    machine.set(byMs);
    watch.now();
  }
  // Ten times as fast as clocks are slewed, for an hour.
  for (let second = 0; second < 3600; second++) {
    machine.run(1000);
    machine.set(5);
    watch.now();
  }

  assert.deepEqual(steps, []);
});

test("a suspend is no step: that time has passed", () => {
  const { machine, watch, steps } = setUp();
  for (const ms of [5000, HOUR, 30 * 24 * HOUR]) {
    machine.run(1234);
    machine.suspend(ms);
    watch.now();
    machine.run(1000);
    watch.now();
  }

  assert.deepEqual(steps, []);
});

test("a clock that was set while the machine slept is told by how much it was set", () => {
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

test("a process that was stopped, or did not look for a day, sees no step", () => {
  const { machine, watch, steps } = setUp();
  for (const ms of [20_000, 24 * HOUR]) {
    machine.run(ms);
    watch.now();
  }

  assert.deepEqual(steps, []);
});

test("a process that is stopped between two readings sees no step", () => {
  const { machine, watch, steps } = setUp();
  machine.afterWall = () => machine.run(20_000);

  assert.equal(watch.now(), NOW + 20_000);
  watch.now();

  assert.deepEqual(steps, []);
});

test("steps add up to what the clock was set by, however often it is set", () => {
  const { machine, watch, steps } = setUp();
  for (const byMs of [HOUR, 2 * HOUR, -HOUR, -5 * HOUR]) {
    machine.run(1000);
    machine.set(byMs);
    watch.now();
  }

  assert.equal(
    steps.reduce((sum, byMs) => sum + byMs, 0),
    -3 * HOUR,
  );
});

test("durations and timers are the clock's own", () => {
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

test("the steady clock runs on while the machine sleeps, and stands while its clock is set", () => {
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

test("the steady clock goes on from where an earlier process left it", () => {
  const { machine, watch } = setUp();
  machine.run(5000);

  watch.resumeSteady(1_000_000);

  assert.equal(watch.steady(), 1_000_000);
  machine.run(700);
  machine.set(HOUR);
  assert.equal(watch.steady(), 1_000_700);
});
