import assert from "node:assert/strict";
import { test } from "node:test";

import type { Clock } from "../../../src/domain/clock/clock.ts";
import { createVirtualClock } from "../../../src/domain/clock/virtual-clock.ts";
import { Lifeline } from "../../../src/store/postgres/machine/life.ts";

test("a lifeline is cut 8 s after the begin of the last successful heartbeat", () => {
  const clock = createVirtualClock();
  const lifeline = new Lifeline(clock, 8000);
  assert.equal(lifeline.isCut, true);
  const begun = lifeline.begin();
  clock.advance(3000);
  lifeline.hold(begun);

  clock.advance(4999);

  assert.equal(lifeline.isCut, false);
  assert.equal(lifeline.leftMs, 1);
  clock.advance(1);
  assert.equal(lifeline.isCut, true);
});

test("a stopped process sees its cut lifeline before any timer fires", () => {
  const clock = createVirtualClock();
  const lifeline = new Lifeline(clock, 8000);
  lifeline.hold(lifeline.begin());
  let fired = false;
  let isCut = false;
  clock.setTimer(1, () => {
    isCut = lifeline.isCut;
    fired = true;
  });

  clock.jump(60_000);

  assert.equal(fired, true);
  assert.equal(isCut, true);
});

test("a lifeline is cut by the sleep of the machine, not by a step of its wall clock", () => {
  const machine = createVirtualClock();
  let slept = 0;
  const clock: Clock = {
    ...machine,
    now: () => machine.now() + slept,
    uptime: () => machine.uptime() + slept,
  };
  const lifeline = new Lifeline(clock, 8000);
  lifeline.hold(lifeline.begin());
  machine.step(60_000);
  assert.equal(lifeline.isCut, false);

  slept = 60_000;

  assert.equal(lifeline.isCut, true);
});
