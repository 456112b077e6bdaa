import assert from "node:assert/strict";
import { test } from "node:test";

import { explainArrivals, type RecordedAttempt } from "../../scripts/soak/duplicates.ts";
import type { Arrival } from "../../scripts/soak/ledger.ts";

const KILLED_AT = [1000, 2000];

function arrival(attempt: number, given: Partial<Arrival> = {}): Arrival {
  return { taskId: "t", kind: "postback", attempt, status: 200, receivedAt: 990, ...given };
}

function recorded(number: number, given: Partial<RecordedAttempt> = {}): RecordedAttempt {
  const times = { startedAt: 985, endedAt: 995 };
  const end = { outcome: "delivered", httpStatus: 200, error: null };
  return { taskId: "t", kind: "postback", number, ...end, ...times, ...given };
}

const INTERRUPTED = { outcome: "interrupted", httpStatus: null, endedAt: 1300 };

function faultsOf(arrivals: readonly Arrival[], attempts: readonly RecordedAttempt[]) {
  return explainArrivals({ arrivals, attempts, killedAt: KILLED_AT }).faults;
}

test("a webhook that arrived once and is recorded as delivered is no duplicate", () => {
  const found = explainArrivals({
    arrivals: [arrival(1), arrival(1, { kind: "pingback" })],
    attempts: [recorded(1), recorded(1, { kind: "pingback" })],
    killedAt: KILLED_AT,
  });

  assert.deepEqual(found, { duplicates: 0, unrecordedMs: [], faults: [] });
});

test("a duplicate is explained by an accepted attempt that was in flight at a kill", () => {
  const found = explainArrivals({
    arrivals: [arrival(1), arrival(2, { receivedAt: 1400 })],
    attempts: [recorded(1, INTERRUPTED), recorded(2, { startedAt: 1390, endedAt: 1410 })],
    killedAt: KILLED_AT,
  });

  assert.deepEqual(found, { duplicates: 1, unrecordedMs: [10], faults: [] });
});

test("an attempt that a kill cut off before it arrived makes no duplicate", () => {
  const found = explainArrivals({
    arrivals: [arrival(2, { receivedAt: 1400 })],
    attempts: [recorded(1, INTERRUPTED), recorded(2, { startedAt: 1390, endedAt: 1410 })],
    killedAt: KILLED_AT,
  });

  assert.deepEqual(found, { duplicates: 0, unrecordedMs: [], faults: [] });
});

test("an attempt that was taken back is no fault, unless it arrived", () => {
  const taken = recorded(1, {
    ...INTERRUPTED,
    error: "taken back before it was sent",
    startedAt: 100,
    endedAt: 200,
  });
  assert.deepEqual(faultsOf([arrival(2)], [taken, recorded(2)]), []);
  assert.equal(faultsOf([arrival(1), arrival(2)], [taken, recorded(2)]).length, 2);
  const other = recorded(1, { ...INTERRUPTED, error: null, startedAt: 100, endedAt: 200 });
  assert.equal(faultsOf([arrival(2)], [other, recorded(2)]).length, 1);
});

test("a failed attempt before the accepted one makes no duplicate", () => {
  const arrivals = [arrival(1, { status: 500 }), arrival(2)];
  const failed = recorded(1, { outcome: "failed", httpStatus: 500 });

  assert.deepEqual(faultsOf(arrivals, [failed, recorded(2)]), []);
});

test("a duplicate whose attempts are both recorded as delivered is a fault", () => {
  assert.deepEqual(faultsOf([arrival(1), arrival(2)], [recorded(1), recorded(2)]), [
    "1 duplicates are not explained by a crash",
  ]);
});

test("an accepted webhook that is recorded as failed is a fault, and so is its duplicate", () => {
  const timedOut = recorded(1, { outcome: "timed_out", httpStatus: null });

  assert.deepEqual(faultsOf([arrival(1), arrival(2)], [timedOut, recorded(2)]), [
    "t-postback attempt 1 was answered 200 and is recorded as timed_out with null: " +
      "it was read 5 ms and ended 10 ms after its start",
    "1 duplicates are not explained by a crash",
  ]);
});

test("an attempt that is recorded as interrupted though nobody killed the daemon is a fault", () => {
  const attempts = [recorded(1, { ...INTERRUPTED, startedAt: 1100, endedAt: 1300 }), recorded(2)];

  assert.deepEqual(faultsOf([arrival(1), arrival(2)], attempts), [
    "t-postback attempt 1 was interrupted, and nobody killed the daemon",
    "1 duplicates are not explained by a crash",
  ]);
});

test("an attempt that arrives twice, without a record, or not although it is recorded, is a fault", () => {
  assert.deepEqual(faultsOf([arrival(1), arrival(1)], [recorded(1)]), [
    "t-postback attempt 1 arrived twice",
    "1 duplicates are not explained by a crash",
  ]);
  assert.deepEqual(faultsOf([arrival(1)], []), [
    "t-postback attempt 1 arrived and is not on record",
  ]);
  assert.deepEqual(faultsOf([], [recorded(1)]), [
    "t-postback attempt 1 did not arrive and is recorded as delivered",
  ]);
});
