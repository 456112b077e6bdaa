import assert from "node:assert/strict";
import { test } from "node:test";

import { momentText, zonedMoments } from "../../src/domain/clock/time.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

const NOON = Date.UTC(2026, 0, 1, 12);

test("a virtual clock stands still until it is advanced", () => {
  const clock = createFakeClock({ now: NOON });

  assert.deepEqual([clock.now(), clock.monotonic()], [NOON, 0]);
});

test("advance fires timers by due time, equal ones in the order of creation", () => {
  const clock = createFakeClock({ now: NOON });
  const fired: string[] = [];
  for (const [name, delayMs] of Object.entries({ c: 20, a: 10, d: 20, b: 15 })) {
    clock.setTimer(delayMs, () => fired.push(`${name}@${clock.now() - NOON}`));
  }

  clock.advance(19);
  assert.deepEqual(fired, ["a@10", "b@15"]);
  clock.advance(1);
  assert.deepEqual(fired, ["a@10", "b@15", "c@20", "d@20"]);
  assert.equal(clock.now(), NOON + 20);
});

test("advance fires timers that other timers create within the span", () => {
  const clock = createFakeClock({ now: NOON });
  const fired: number[] = [];
  const tick = (): void => {
    fired.push(clock.monotonic());
    clock.setTimer(10, tick);
  };
  clock.setTimer(10, tick);

  clock.advance(35);

  assert.deepEqual(fired, [10, 20, 30]);
  assert.deepEqual(clock.pending(), [5]);
});

test("jump moves the time first and then fires the due timers in order", () => {
  const clock = createFakeClock({ now: NOON });
  const fired: string[] = [];
  clock.setTimer(20, () => fired.push(`late@${clock.now() - NOON}`));
  clock.setTimer(10, () => {
    fired.push(`early@${clock.now() - NOON}`);
    clock.setTimer(0, () => fired.push("at once"));
    clock.setTimer(1, () => fired.push("not yet"));
  });

  clock.jump(1000);

  assert.deepEqual(fired, ["early@1000", "late@1000", "at once"]);
  assert.deepEqual(clock.pending(), [1]);
});

test("step sets the wall clock alone", () => {
  const clock = createFakeClock({ now: NOON });
  clock.setTimer(10, () => {});

  clock.step(-3_600_000);

  assert.deepEqual([clock.now(), clock.monotonic()], [NOON - 3_600_000, 0]);
  assert.deepEqual(clock.pending(), [10]);
});

test("a timer does not fire inside the call that creates it", () => {
  const clock = createFakeClock({ now: NOON });
  let fired = 0;

  clock.setTimer(-5, () => fired++);
  assert.equal(fired, 0);
  clock.advance(0);
  assert.equal(fired, 1);
});

test("a cancelled timer does not fire, also if a timer of the same time cancels it", () => {
  const clock = createFakeClock({ now: NOON });
  const fired: string[] = [];
  clock.setTimer(10, () => {
    fired.push("first");
    second.cancel();
  });
  const second = clock.setTimer(10, () => fired.push("second"));

  clock.advance(10);

  assert.deepEqual(fired, ["first"]);
  assert.deepEqual(clock.pending(), []);
});

test("whenPending resolves at that number of timers", async () => {
  const clock = createFakeClock({ now: NOON });
  const two = clock.whenPending(2);

  clock.setTimer(1, () => {});
  clock.setTimer(2, () => {});

  await two;
  await clock.whenPending(1);
});

test("the clock does not move backwards", () => {
  const clock = createFakeClock({ now: NOON });

  assert.throws(() => clock.advance(-1), RangeError);
  assert.throws(() => clock.jump(-1), RangeError);
});

const WINTER = Date.parse("2026-01-31T23:59:59.999Z");
const SUMMER = Date.parse("2026-07-31T00:00:00.000Z");

test("a time is written with the offset of its zone and season", () => {
  for (const [timeZone, winter, summer] of [
    ["UTC", "2026-01-31 23:59:59 UTC", "2026-07-31 00:00:00 UTC"],
    ["Europe/Berlin", "2026-02-01 00:59:59 UTC+1", "2026-07-31 02:00:00 UTC+2"],
    ["America/New_York", "2026-01-31 18:59:59 UTC-5", "2026-07-30 20:00:00 UTC-4"],
    ["Asia/Kathmandu", "2026-02-01 05:44:59 UTC+5:45", "2026-07-31 05:45:00 UTC+5:45"],
  ] as const) {
    const write = zonedMoments(timeZone) ?? assert.fail();
    assert.deepEqual([write(WINTER), write(SUMMER)], [winter, summer]);
  }
  assert.equal(zonedMoments("UTC")?.(WINTER), momentText(WINTER));
});

test("an unknown zone returns null", () => {
  for (const name of ["", "Europe/Atlantis", "local", "Europe/Berlin ", "../etc/localtime"]) {
    assert.equal(zonedMoments(name), null, name);
  }
});
