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
  test(`what a claim says is left is moved when the clock was set by ${byMs / MINUTE} min before it answered`, async () => {
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

  test(`an attempt that could not be recorded before the clock was set by ${byMs / MINUTE} min is tried again a minute after its end`, async () => {
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
  // What was due before the clock was set back is due after it too.
  [-HOUR, NOW - HOUR],
] as const) {
  test(`nothing is claimed between the setting of the clock by ${byMs / MINUTE} min and its being on disk`, async () => {
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

test("what was written before the setting of the clock could be waits no longer than a retry does", async () => {
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

test("an attempt whose request cannot be made has failed, and stops nothing else", async () => {
  const { dispatcher, claims, records, sends, faults } = await setUpHealthy();
  dispatcher.wake([LANE]);
  const { task } = attempt();
  const bad = attempt({ kind: "postback", task: { ...task, expiresAt: Number.NaN } });
  const good = attempt({ seq: 2, number: 7 });
  (await claims.next()).resolve({ attempts: [bad, good], lanes: [lane()], suspended: [] });

  const record = await records.next();
  assert.equal(record.argument.attempt.seq, 1);
  assert.equal(record.argument.result.error, "internal error");
  assert.equal(record.argument.decision.state, "scheduled");
  record.resolve();
  const send = await sends.next();
  assert.equal(send.argument, "7");
  send.resolve(newAttemptResult({ outcome: "delivered" }));
  (await records.next()).resolve();
  await dispatcher.quiet();
  assert.deepEqual(faults, []);
});

test("nothing of a suspended account is claimed, until it is enabled and its lanes are read again", async () => {
  const { clock, dispatcher, claims, records, sends, reads } = setUp();
  dispatcher.wake([LANE]);
  (await claims.next()).resolve({ attempts: [attempt()], lanes: [lane()], suspended: [] });
  const send = await sends.next();
  dispatcher.suspend([1]);
  dispatcher.wake([LANE]);
  assert.equal(dispatcher.gauge.heldAccounts, 1);

  // What is in flight goes to its end, and what follows from it waits as well.
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

test("nothing is claimed in paused lanes, and all of it once they are resumed", async () => {
  const { clock, dispatcher, claims, records, sends, reads } = setUp();
  const other = { accountId: 2, host: "b.example" };
  await dispatcher.pauseOnly([{ accountId: null, host: HOST }]);
  assert.equal(dispatcher.gauge.pauses, 1);
  dispatcher.wake([LANE, other]);

  // Another host is not held, until everything is.
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

test("an account that the store calls disabled at a claim is suspended, and the others go on", async () => {
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

test("a claim that called an account disabled does not suspend it when it was enabled meanwhile", async () => {
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

test("lanes that were read while the clock was set are read again", async () => {
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

test("a lane that delivered before a start is healthy after it", async () => {
  const { dispatcher, claims, reads, shares } = setUp([LANE]);
  const recovered = dispatcher.recover();
  (await reads.next()).resolve([
    lane({ freshDueAt: NOW }),
    lane({ accountId: 2, freshDueAt: NOW }),
  ]);
  await recovered;

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
      // With as many as the host has places ahead of the seven that one account gets.
      [1, 15],
      [2, 1],
    ],
  );
});
