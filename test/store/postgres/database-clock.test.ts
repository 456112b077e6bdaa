import assert from "node:assert/strict";
import { test } from "node:test";

import { ClockWatch } from "../../../src/domain/clock/service-clock.ts";
import { createVirtualClock, type VirtualClock } from "../../../src/domain/clock/virtual-clock.ts";
import { DatabaseClock } from "../../../src/store/postgres/machine/database-clock.ts";

const T0 = Date.parse("2030-01-31T09:00:00.000Z");

/** A database whose clock is the given time ahead of the machine's monotonic one. */
function newDatabase({ machine, aheadMs }: { machine: VirtualClock; aheadMs: number }) {
  const clock = new DatabaseClock(machine);
  const database = {
    aheadMs,
    clock,
    /** Asks for the time; the question takes one time, the answer another. */
    ask({ thereMs = 1, backMs = 1 }: { thereMs?: number; backMs?: number } = {}) {
      const sentAt = machine.monotonic();
      machine.advance(thereMs);
      const shown = database.aheadMs + machine.monotonic();
      machine.advance(backMs);
      clock.learn({ shown, sentAt, heardAt: machine.monotonic() });
    },
    /** By how much the clock is wrong. */
    error: () => clock.now() - Math.floor(database.aheadMs + machine.monotonic()),
  };
  return database;
}

test("the clock shows the database's time, also after a step of the machine's clock", () => {
  const machine = createVirtualClock({ now: T0 + 300_000 });
  const database = newDatabase({ machine, aheadMs: T0 });
  database.ask();
  assert.equal(database.error(), 0);
  machine.step(-600_000);
  machine.advance(10_000);
  assert.equal(database.error(), 0);
});

test("the fastest reading of the last minute decides", () => {
  const machine = createVirtualClock();
  const database = newDatabase({ machine, aheadMs: T0 });
  database.ask({ thereMs: 1, backMs: 1 });
  for (let i = 0; i < 29; i++) database.ask({ thereMs: 90, backMs: 10 });
  assert.equal(database.error(), 0);
  database.ask({ thereMs: 90, backMs: 10 });
  assert.equal(database.error(), 40);
});

test("a better reading never sets the clock back", () => {
  const machine = createVirtualClock();
  const database = newDatabase({ machine, aheadMs: T0 });
  // Half of the time is taken for the way back.
  database.ask({ thereMs: 90, backMs: 10 });
  assert.equal(database.error(), 40);

  database.ask({ thereMs: 0, backMs: 0 });

  assert.equal(database.error(), 40);
  machine.advance(30);
  assert.equal(database.error(), 10);
  machine.advance(30);
  assert.equal(database.error(), 0);
});

test("the clock follows a step of the database's clock after one reading", () => {
  const machine = createVirtualClock();
  const database = newDatabase({ machine, aheadMs: T0 });
  for (let i = 0; i < 30; i++) database.ask();
  for (const step of [300_000, -600_000]) {
    database.aheadMs += step;
    database.ask({ thereMs: 50, backMs: 50 });
    assert.equal(database.error(), 0, `${step}`);
  }
});

test("watchers are notified once of a step of the database's clock", () => {
  const machine = createVirtualClock();
  const database = newDatabase({ machine, aheadMs: T0 });
  database.ask();
  database.clock.anchorUptime(null);
  const watch = new ClockWatch(database.clock);
  const steps: number[] = [];
  watch.watch((byMs) => steps.push(byMs));

  for (let i = 0; i < 40; i++) {
    if (i === 5) database.aheadMs += 300_000;
    database.ask({ thereMs: i, backMs: 40 - i });
    watch.now();
  }

  assert.deepEqual(
    steps.map((step) => Math.round(step / 1000)),
    [300],
  );
});

test("the uptime continues a kept reading, so that a corrected step is not found again", () => {
  const machine = createVirtualClock();
  const first = newDatabase({ machine, aheadMs: T0 });
  first.ask();
  first.clock.anchorUptime(null);
  first.aheadMs += 300_000;
  first.ask();
  const reading = { wallAt: first.clock.now(), uptimeMs: first.clock.uptime() };
  machine.advance(10_000);
  const other = newDatabase({ machine: createVirtualClock(), aheadMs: first.clock.now() });
  other.ask({ thereMs: 0, backMs: 0 });

  other.clock.anchorUptime(reading);

  assert.equal(other.clock.now() - reading.wallAt, other.clock.uptime() - reading.uptimeMs);
  assert.equal(other.clock.bootId(), first.clock.bootId());
});
