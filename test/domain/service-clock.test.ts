import assert from "node:assert/strict";
import { test } from "node:test";

import type { Clock } from "../../src/domain/clock/clock.ts";
import {
  type ClockReading,
  ClockWatch,
  decideResumption,
  isExpiredId,
  retentionEnd,
} from "../../src/domain/clock/service-clock.ts";
import { IdGenerator } from "../../src/domain/id.ts";
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

test("durations and timers come from the wrapped clock", () => {
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

const MINUTE = 60_000;
const DAY = 1440 * MINUTE;
const YEAR = 365 * DAY;
const WALL = Date.parse("2030-01-31T09:00:00.000Z");

const LAST: ClockReading = { wallAt: WALL, steadyAt: 5000, uptimeMs: 10 * MINUTE, bootId: "a" };

/** A minute later, in the same boot, by a clock that was not set. */
const LATER = { wallAt: WALL + MINUTE, uptimeMs: 11 * MINUTE, bootId: "a" };

test("without a stored reading the service clock starts at the wall clock", () => {
  const resumption = decideResumption(null, LATER);

  assert.deepEqual(resumption, { steadyAt: LATER.wallAt, stepMs: 0, isElapsedKnown: true });
});

test("within one boot the uptime is the elapsed time, and a difference of a second is a step", () => {
  for (const stepMs of [0, DAY, -DAY, 5 * YEAR, -5 * YEAR, -WALL]) {
    const now = { ...LATER, wallAt: LATER.wallAt + stepMs };

    const resumption = decideResumption(LAST, now);

    assert.deepEqual(resumption, { steadyAt: 5000 + MINUTE, stepMs, isElapsedKnown: true });
  }
  for (const byMs of [-999, -10, 10, 999]) {
    const now = { ...LATER, wallAt: LATER.wallAt + byMs };
    assert.equal(decideResumption(LAST, now).stepMs, 0, String(byMs));
  }
});

test("a reading of another node that is milliseconds ahead is not a reboot", () => {
  for (const aheadMs of [1, 20, 999]) {
    const now = { wallAt: WALL - aheadMs, uptimeMs: 10 * MINUTE - aheadMs, bootId: "a" };
    const resumption = decideResumption(LAST, now);
    assert.deepEqual(resumption, { steadyAt: 5000, stepMs: 0, isElapsedKnown: true });
  }
});

const REBOOTS = {
  "another boot": { bootId: "b", uptimeMs: 20 * MINUTE },
  "an unknown boot": { bootId: null, uptimeMs: 20 * MINUTE },
  "an uptime that restarted": { bootId: "a", uptimeMs: MINUTE },
};

test("after a reboot the service clock continues, and only a wall clock that went back was set", () => {
  const cases = { [MINUTE]: 0, [DAY]: 0, [5 * YEAR]: 0, [-DAY]: -DAY, [-WALL]: -WALL };
  for (const [what, boot] of Object.entries(REBOOTS)) {
    for (const [aheadMs, stepMs] of Object.entries(cases)) {
      const now = { ...boot, wallAt: WALL + Number(aheadMs) };

      const resumption = decideResumption(LAST, now);

      assert.deepEqual(resumption, { steadyAt: 5000, stepMs, isElapsedKnown: false }, what);
    }
  }
  // Two unknown boots are different boots.
  const unknown = decideResumption({ ...LAST, bootId: null }, { ...LATER, bootId: null });
  assert.equal(unknown.isElapsedKnown, false);
});

const MARCH = Date.parse("2030-03-31T09:00:00.000Z");
const FACTS = { now: MARCH, retentionMs: 30 * DAY };

function idOf(timeMs: number): string {
  return new IdGenerator().next(timeMs);
}

test("a task is kept for the retention after its end, by the service clock", () => {
  const end = retentionEnd({ at: MARCH, steadyAt: 5 }, 30 * DAY);

  assert.equal(end.expiresAt, Date.parse("2030-04-30T09:00:00.000Z"));
  assert.equal(end.eraseAt, 5 + 30 * DAY);
});

test("an unknown id is expired if it is older than the retention", () => {
  const old = idOf(MARCH - 300 * DAY);
  for (const id of [idOf(MARCH - 30 * DAY - 1), old, idOf(0)]) {
    assert.equal(isExpiredId(id, FACTS), true, id);
  }
  const newer = [MARCH - 30 * DAY, MARCH - 1, MARCH, MARCH + DAY].map(idOf);
  const others = ["", "x", old.toUpperCase(), old.replaceAll("-", ""), `${old}\n`];
  for (const text of [...newer, ...others]) assert.equal(isExpiredId(text, FACTS), false, text);
});
