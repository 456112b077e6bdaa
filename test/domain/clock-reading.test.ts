import assert from "node:assert/strict";
import { test } from "node:test";

import { decideResumption, type ClockReading } from "../../src/domain/clock/service-clock.ts";

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

test("within one boot the uptime is the elapsed time, and the rest of the wall clock is a step", () => {
  for (const stepMs of [0, DAY, -DAY, 5 * YEAR, -5 * YEAR, -WALL]) {
    const now = { ...LATER, wallAt: LATER.wallAt + stepMs };

    const resumption = decideResumption(LAST, now);

    assert.deepEqual(resumption, { steadyAt: 5000 + MINUTE, stepMs, isElapsedKnown: true });
  }
});

test("a difference under a second is not a step", () => {
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
});

test("two unknown boots are different boots", () => {
  const { isElapsedKnown } = decideResumption(
    { ...LAST, bootId: null },
    { ...LATER, bootId: null },
  );

  assert.equal(isElapsedKnown, false);
});
