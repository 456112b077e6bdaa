import assert from "node:assert/strict";
import { test } from "node:test";

import { StoreError } from "../../src/store/store.ts";
import { newAttemptResult } from "../helpers/store.ts";
import {
  attempt,
  EMPTY,
  HOST,
  LANE,
  lane,
  MINUTE,
  NOW,
  setUp,
  setUpHealthy,
} from "./dispatcher-setup.ts";

const SECOND = 1000;
const HOUR = 60 * MINUTE;

for (const byMs of [HOUR, -HOUR]) {
  test(`a claim's due times move with a clock that is set by ${byMs / MINUTE} min during the claim`, async () => {
    const { clock, watch, dispatcher, claims, shifts } = setUp();
    dispatcher.wake([LANE]);
    const claim = await claims.next();
    clock.step(byMs);
    watch.now();
    claim.resolve({ attempts: [], lanes: [lane({ retryDueAt: NOW + MINUTE })], suspended: [] });
    (await shifts.next()).resolve(1);
    await dispatcher.quiet();

    clock.advance(MINUTE - 1);
    dispatcher.pump();
    assert.equal(claims.waiting, 0);
    clock.advance(1);
    dispatcher.pump();
    assert.equal(claims.waiting, 1);
    (await claims.next()).resolve(EMPTY);
    await dispatcher.quiet();
  });

  test(`an attempt recorded after the clock was set by ${byMs / MINUTE} min is retried a minute after its end`, async () => {
    const { clock, dispatcher, claims, records, shifts, sends } = setUp();
    dispatcher.wake([LANE]);
    (await claims.next()).resolve({ attempts: [attempt()], lanes: [lane()], suspended: [] });
    (await sends.next()).resolve(newAttemptResult());
    (await records.next()).reject(new StoreError("full", "no space"));
    await clock.whenPending(1);
    clock.step(byMs);
    clock.advance(SECOND);
    dispatcher.pump();
    (await shifts.next()).resolve(1);

    const { argument, resolve } = await records.next();
    assert.equal(argument.endedAt, NOW + byMs);
    assert.deepEqual(argument.decision, {
      ...{ state: "scheduled", dueAt: NOW + byMs + MINUTE, retry: 1 },
    });
    resolve();
    await dispatcher.quiet();
    clock.advance(MINUTE - SECOND - 1);
    dispatcher.pump();
    assert.equal(claims.waiting, 0);
    clock.advance(1);
    dispatcher.pump();
    assert.equal(claims.waiting, 1);
    (await claims.next()).resolve(EMPTY);
    await dispatcher.quiet();
  });
}

for (const [byMs, after] of [
  [HOUR, NOW],
  // An attempt that was due before a clock set back stays due.
  [-HOUR, NOW - HOUR],
] as const) {
  test(`no claim starts after a clock set by ${byMs / MINUTE} min until the shift is on disk`, async () => {
    const { clock, dispatcher, claims, shifts } = setUp();
    clock.step(byMs);
    dispatcher.wake([LANE]);
    const shift = await shifts.next();
    dispatcher.pump();

    assert.deepEqual(shift.argument, { after, by: byMs });
    assert.equal(claims.waiting, 0);
    assert.equal(dispatcher.isIdle(), false);
    shift.resolve(0);
    (await claims.next()).resolve(EMPTY);
    await dispatcher.quiet();
  });
}

test("attempts that were stored before a delayed shift wait no longer than a retry", async () => {
  const { clock, dispatcher, claims, shifts, hastened } = setUp();
  clock.step(HOUR);
  dispatcher.wake([LANE]);
  (await shifts.next()).reject(new StoreError("full", "no space"));
  await clock.whenPending(1);
  assert.deepEqual(hastened, []);
  clock.advance(SECOND);
  (await shifts.next()).resolve(1);

  (await claims.next()).resolve(EMPTY);
  const now = NOW + HOUR + SECOND;
  assert.deepEqual(hastened, [{ now, latest: now + MINUTE }]);
  await dispatcher.quiet();
});

test("a failed claim of the store leaves no attempt in flight", async () => {
  const { dispatcher, claims, faults } = setUp();
  dispatcher.wake([LANE, { accountId: 2, host: HOST }]);
  const claim = await claims.next();
  dispatcher.drain();
  claim.reject(new StoreError("failed", "I/O error"));
  await dispatcher.quiet();

  assert.equal(faults.length, 1);
  assert.equal(dispatcher.isIdle(), true);
});

test("the lanes of a rejected claim are claimed one by one, and a lane whose own claim is rejected a minute later", async () => {
  const { clock, dispatcher, claims, shares } = setUp();
  const other = { accountId: 2, host: HOST };
  const pass = (ms: number): void => (clock.advance(ms), dispatcher.pump());
  dispatcher.wake([LANE, other]);
  (await claims.next()).reject(new Error("a row cannot be claimed"));
  await dispatcher.quiet();
  shares.length = 0;

  pass(SECOND);
  (await claims.next()).reject(new Error("a row cannot be claimed"));
  await dispatcher.quiet();
  pass(SECOND);
  (await claims.next()).resolve({ attempts: [], lanes: [lane(other)], suspended: [] });
  await dispatcher.quiet();
  pass(MINUTE - SECOND - 1);
  assert.equal(claims.waiting, 0);
  pass(1);

  assert.deepEqual([claims.waiting, shares.map(({ accountId }) => accountId)], [1, [1, 2, 1]]);
});

test("an attempt whose request cannot be built fails, and the next one is sent", async () => {
  const { dispatcher, claims, records, sends, faults } = await setUpHealthy();
  dispatcher.wake([LANE]);
  const { task } = attempt();
  const bad = attempt({ kind: "postback", task: { ...task, expiresAt: Number.NaN } });
  const good = attempt({ seq: 2, number: 7 });
  (await claims.next()).resolve({ attempts: [bad, good], lanes: [lane()], suspended: [] });

  const record = await records.next();
  assert.equal(record.argument.attempt.seq, 1);
  assert.equal(record.argument.result.outcome, "failed");
  assert.equal(record.argument.decision.state, "scheduled");
  record.resolve();
  const send = await sends.next();
  assert.equal(send.argument, "7");
  send.resolve(newAttemptResult({ outcome: "delivered" }));
  (await records.next()).resolve();
  await dispatcher.quiet();
  assert.deepEqual(faults, []);
});

test("no attempt of a suspended account is claimed until it is enabled", async () => {
  const { clock, dispatcher, claims, records, sends, reads } = setUp();
  dispatcher.wake([LANE]);
  (await claims.next()).resolve({ attempts: [attempt()], lanes: [lane()], suspended: [] });
  const send = await sends.next();
  dispatcher.suspend([1]);
  dispatcher.wake([LANE]);
  assert.equal(dispatcher.gauge.heldAccounts, 1);

  // The attempt in flight ends, and its retry waits.
  send.resolve(newAttemptResult());
  (await records.next()).resolve();
  await dispatcher.quiet();
  clock.advance(MINUTE);
  dispatcher.pump();
  assert.deepEqual([claims.waiting, dispatcher.isIdle()], [0, true]);

  const resumed = dispatcher.resume([1]);
  const read = await reads.next();
  assert.equal(read.argument, 1);
  read.resolve([lane({ retryDueAt: NOW + MINUTE })]);
  await resumed;
  assert.equal(dispatcher.gauge.heldAccounts, 0);
  (await claims.next()).resolve(EMPTY);
  await dispatcher.quiet();
});

test("no attempt of a paused lane is claimed until the lane is resumed", async () => {
  const { clock, dispatcher, claims, records, sends, reads } = setUp();
  const other = { accountId: 2, host: "b.example" };
  await dispatcher.pauseOnly([{ accountId: null, host: HOST }]);
  assert.equal(dispatcher.gauge.pauses, 1);
  dispatcher.wake([LANE, other]);

  // The other host is paused later, with everything.
  const claim = await claims.next();
  claim.resolve({ attempts: [attempt(other)], lanes: [lane(other)], suspended: [] });
  const send = await sends.next();
  const account = { accountId: 1, host: null };
  const everything = { accountId: null, host: null };
  await dispatcher.pauseOnly([{ accountId: null, host: HOST }, account, everything]);
  send.resolve(newAttemptResult());
  (await records.next()).resolve();
  await dispatcher.quiet();
  clock.advance(MINUTE);
  dispatcher.wake([LANE, other]);
  assert.deepEqual([claims.waiting, dispatcher.isIdle(), dispatcher.gauge.lanes], [0, true, 0]);

  const released = dispatcher.pauseOnly([account]);
  const read = await reads.next();
  assert.equal(read.argument, "all");
  read.resolve([lane({ freshDueAt: NOW }), lane({ ...other, retryDueAt: NOW + MINUTE })]);
  await released;
  (await claims.next()).resolve({ attempts: [], lanes: [lane(other)], suspended: [] });
  await dispatcher.quiet();

  const last = dispatcher.pauseOnly([]);
  const own = await reads.next();
  assert.equal(own.argument, 1);
  own.resolve([lane({ freshDueAt: NOW })]);
  await last;
  (await claims.next()).resolve(EMPTY);
  await dispatcher.quiet();
  assert.equal(dispatcher.gauge.pauses, 0);
});

test("an account that a claim reports as disabled is suspended, and others go on", async () => {
  const { dispatcher, claims } = setUp();
  dispatcher.wake([LANE, { accountId: 2, host: HOST }]);
  const left = [lane(), lane({ accountId: 2, freshDueAt: NOW })];
  (await claims.next()).resolve({ attempts: [], lanes: left, suspended: [1] });

  assert.equal(claims.waiting, 0);
  (await claims.next()).resolve({ attempts: [], lanes: [lane({ accountId: 2 })], suspended: [] });
  await dispatcher.quiet();
  assert.equal(dispatcher.gauge.heldAccounts, 1);
  dispatcher.wake([LANE]);
  assert.equal(claims.waiting, 0);
});

test("a claim does not suspend an account that was enabled during the claim", async () => {
  const { dispatcher, claims, reads } = setUp();
  dispatcher.wake([LANE]);
  const claim = await claims.next();
  const resumed = dispatcher.resume([1]);
  (await reads.next()).resolve([lane({ freshDueAt: NOW })]);
  await resumed;
  claim.resolve({ attempts: [], lanes: [lane()], suspended: [1] });

  (await claims.next()).resolve(EMPTY);
  await dispatcher.quiet();
  assert.equal(dispatcher.gauge.heldAccounts, 0);
});

// A healthy lane gets 7 slots and 8 prefetched attempts, a probing lane one attempt at a time.
for (const [outcome, ms, fresh, told] of [
  ["delivered", 4999, 15, [true]],
  ["delivered", 5000, 1, [true]],
  ["failed", 999, 15, [false]],
  ["failed", 1000, 1, [false]],
  ["timed_out", 0, 1, [false]],
  ["refused", 9999, 15, []],
] as const) {
  test(`a healthy lane is ${fresh === 1 ? "probing" : "healthy"} after an attempt that ${outcome} in ${ms} ms`, async () => {
    const { clock, dispatcher, claims, records, sends, shares, health } = await setUpHealthy();
    dispatcher.wake([LANE]);
    (await claims.next()).resolve({ attempts: [attempt()], lanes: [lane()], suspended: [] });
    const send = await sends.next();
    clock.advance(ms);
    send.resolve(newAttemptResult({ outcome }));
    (await records.next()).resolve();
    await dispatcher.quiet();

    dispatcher.wake([LANE]);

    assert.deepEqual([shares.at(-1)?.fresh, health], [fresh, told]);
  });
}

test("lanes are read again if the clock is set during the read", async () => {
  const { clock, watch, dispatcher, claims, reads, shifts } = setUp();
  dispatcher.suspend([1]);
  const resumed = dispatcher.resume([1]);
  const read = await reads.next();
  clock.step(HOUR);
  watch.now();
  read.resolve([lane({ freshDueAt: NOW })]);
  (await shifts.next()).resolve(1);
  (await reads.next()).resolve([lane({ freshDueAt: NOW + HOUR })]);
  await resumed;

  (await claims.next()).resolve(EMPTY);
  await dispatcher.quiet();
});

test("after a restart a lane that delivered within a day is healthy, and no attempt waits longer than a retry", async () => {
  const { dispatcher, claims, reads, shares, hastened, proven } = setUp([LANE]);
  const recovered = dispatcher.recover();
  (await reads.next()).resolve([
    lane({ freshDueAt: NOW }),
    lane({ accountId: 2, freshDueAt: NOW }),
  ]);
  await recovered;
  assert.deepEqual(hastened, [{ now: NOW, latest: NOW + MINUTE }]);
  assert.deepEqual(proven, [NOW - 24 * HOUR]);

  dispatcher.pump();

  (await claims.next()).resolve({
    attempts: [],
    lanes: [lane(), lane({ accountId: 2 })],
    suspended: [],
  });
  await dispatcher.quiet();
  assert.deepEqual(
    shares.map(({ accountId, fresh }) => [accountId, fresh]),
    [
      // Prefetched attempts, as many as the host has slots, and the seven slots of one account.
      [1, 15],
      [2, 1],
    ],
  );
});
