import assert from "node:assert/strict";
import { test } from "node:test";

import type { Clock } from "../../../src/domain/clock/clock.ts";
import { ClockWatch } from "../../../src/domain/clock/service-clock.ts";
import { type VirtualClock, createVirtualClock } from "../../../src/domain/clock/virtual-clock.ts";
import { NODE_ROLES } from "../../../src/store/cluster.ts";
import { TransactionTimes } from "../../../src/store/postgres/database-health.ts";
import { DatabaseClock } from "../../../src/store/postgres/machine/database-clock.ts";
import { Lifeline } from "../../../src/store/postgres/machine/life.ts";
import {
  type RoleRow,
  type RoleView,
  planRoles,
} from "../../../src/store/postgres/machine/roles.ts";

const NOW = 1_000_000;
const PATIENCE_MS = 5000;

/** The first roles are this node's, the next ones another node's. The rest have been free for `freeMs`. */
function newView({
  own = 0,
  others = 0,
  freeMs = 0,
  ...view
}: Partial<RoleView> & { own?: number; others?: number; freeMs?: number }): RoleView {
  const roles = NODE_ROLES.map((name, i): RoleRow => {
    if (i < own) return { name, nodeSeq: 1, until: NOW + 10_000 };
    if (i < own + others) return { name, nodeSeq: 2, until: NOW + 10_000 };
    return { name, nodeSeq: null, until: NOW - 1 - freeMs };
  });
  const rest = { isResigning: false, isClockTrusted: true, now: NOW, patienceMs: PATIENCE_MS };
  return { roles, self: 1, members: 1, hasGrown: false, ...rest, ...view };
}

test("a single node takes all roles", () => {
  assert.deepEqual(planRoles(newView({})), { hold: NODE_ROLES, release: [] });
});

test("two nodes share seven roles as four and three", () => {
  assert.deepEqual(planRoles(newView({ members: 2 })).hold, NODE_ROLES.slice(0, 4));
});

test("a node gives back roles above its share when another node has joined", () => {
  const kept = planRoles(newView({ own: 7, members: 2 }));
  const shared = planRoles(newView({ own: 7, members: 2, hasGrown: true }));
  assert.deepEqual(kept, { hold: NODE_ROLES, release: [] });
  assert.deepEqual(shared, { hold: NODE_ROLES.slice(0, 4), release: NODE_ROLES.slice(4) });
});

test("a node takes roles above its share that stay free", () => {
  const soon = newView({ own: 4, members: 2 });
  const late = newView({ own: 4, members: 2, freeMs: PATIENCE_MS });
  assert.deepEqual(planRoles(soon).hold, NODE_ROLES.slice(0, 4));
  assert.deepEqual(planRoles(late).hold, NODE_ROLES);
});

test("a node takes no role of another node", () => {
  assert.deepEqual(planRoles(newView({ others: 7, members: 2 })).hold, []);
});

test("a node that resigns gives back its roles unless it is alone", () => {
  const among = planRoles(newView({ own: 3, members: 2, isResigning: true }));
  const alone = planRoles(newView({ own: 7, isResigning: true }));
  assert.deepEqual(among, { hold: [], release: NODE_ROLES.slice(0, 3) });
  assert.deepEqual(alone, { hold: NODE_ROLES, release: [] });
});

test("a node takes no expired roles while its clock is not trusted", () => {
  const view = newView({ others: 7, members: 2 });
  const roles = view.roles.map((role) => ({ ...role, until: NOW - 60_000 }));
  assert.deepEqual(planRoles({ ...view, roles }).hold, NODE_ROLES);
  assert.deepEqual(planRoles({ ...view, roles, isClockTrusted: false }).hold, []);
});

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

function looked(looks: readonly (readonly [atMs: number, next: number])[], nowMs: number) {
  let now = 0;
  const times = new TransactionTimes(() => now);
  for (const [at, next] of looks) {
    now = at;
    times.note(next);
  }
  now = nowMs;
  return times;
}

test("a transaction is at least as old as the first poll that found it", () => {
  const times = looked(
    [
      [0, 100],
      [60_000, 200],
      [120_000, 300],
    ],
    121_000,
  );
  assert.equal(times.sinceMs(99), 121_000);
  assert.equal(times.sinceMs(100), 61_000);
  assert.equal(times.sinceMs(199), 61_000);
});

test("the age of a transaction found by the last poll only is unknown", () => {
  const times = looked(
    [
      [0, 100],
      [60_000, 200],
    ],
    60_000,
  );
  assert.equal(times.sinceMs(100), null);
  assert.equal(times.sinceMs(200), null);
  assert.equal(looked([[0, 100]], 500).sinceMs(1), null);
});

test("several polls in a second count as one, and polls of another server are dropped", () => {
  const often = looked(
    [
      [0, 100],
      [999, 150],
      [1000, 200],
      [2000, 300],
    ],
    2000,
  );
  assert.equal(often.sinceMs(120), 1000);
  const other = looked(
    [
      [0, 100],
      [1000, 200],
      [2000, 50],
      [3000, 60],
    ],
    3000,
  );
  assert.equal(other.sinceMs(40), 1000);
});
