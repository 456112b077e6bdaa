import assert from "node:assert/strict";
import { test } from "node:test";

import { explainArrivals, type RecordedAttempt } from "../../scripts/soak/duplicates.ts";
import type { Arrival } from "../../scripts/soak/ledger.ts";

const killedAt = [1000, 2000];

function arrival(attempt: number, given: Partial<Arrival> = {}): Arrival {
  return { taskId: "t", kind: "postback", attempt, status: 200, receivedAt: 990, ...given };
}

function recorded(number: number, given: Partial<RecordedAttempt> = {}): RecordedAttempt {
  const times = { startedAt: 985, endedAt: 995 };
  const end = { outcome: "delivered", httpStatus: 200, error: null };
  return { taskId: "t", kind: "postback", number, ...end, ...times, ...given };
}

const INTERRUPTED = { outcome: "interrupted", httpStatus: null, endedAt: 1300 };
const CUT = recorded(1, INTERRUPTED);
const LATER = arrival(2, { receivedAt: 1400 });
const LATER_RECORD = recorded(2, { startedAt: 1390, endedAt: 1410 });
const EARLY = { ...INTERRUPTED, startedAt: 100, endedAt: 200 };
const TAKEN_BACK = recorded(1, { ...EARLY, error: "withdrawn before it was sent" });
const UNEXPLAINED = "duplicates are not explained";

type Facts = readonly [arrivals: readonly Arrival[], attempts: readonly RecordedAttempt[]];

const FINE: Readonly<Record<string, [...Facts, duplicates: number, unrecordedMs: number[]]>> = {
  "a webhook that arrived once and is recorded as delivered": [
    [arrival(1), arrival(1, { kind: "pingback" })],
    [recorded(1), recorded(1, { kind: "pingback" })],
    0,
    [],
  ],
  "a duplicate of an accepted attempt that was in flight at a kill": [
    [arrival(1), LATER],
    [CUT, LATER_RECORD],
    1,
    [10],
  ],
  "an attempt that a kill cut off before it arrived": [[LATER], [CUT, LATER_RECORD], 0, []],
  "an attempt that was taken back and did not arrive": [
    [arrival(2)],
    [TAKEN_BACK, recorded(2)],
    0,
    [],
  ],
  "a failed attempt before the accepted attempt": [
    [arrival(1, { status: 500 }), arrival(2)],
    [recorded(1, { outcome: "failed", httpStatus: 500 }), recorded(2)],
    0,
    [],
  ],
};
for (const [name, [arrivals, attempts, duplicates, unrecordedMs]] of Object.entries(FINE)) {
  test(`the judge accepts ${name}`, () => {
    const found = explainArrivals({ arrivals, attempts, killedAt });
    assert.deepEqual(found, { duplicates, unrecordedMs, faults: [] });
  });
}

const BOTH = [arrival(1), arrival(2)];
const FAULTY: Readonly<Record<string, [...Facts, faults: readonly string[]]>> = {
  "an attempt that was taken back and arrived": [
    BOTH,
    [TAKEN_BACK, recorded(2)],
    ["attempt 1", UNEXPLAINED],
  ],
  "an attempt that was interrupted before any kill": [
    [arrival(2)],
    [recorded(1, EARLY), recorded(2)],
    ["attempt 1 was interrupted"],
  ],
  "a duplicate whose attempts are both recorded as delivered": [
    BOTH,
    [recorded(1), recorded(2)],
    [UNEXPLAINED],
  ],
  "an accepted webhook that is recorded as failed": [
    BOTH,
    [recorded(1, { outcome: "timed_out", httpStatus: null }), recorded(2)],
    ["attempt 1 was answered 200 and is recorded as timed_out with null", UNEXPLAINED],
  ],
  "an attempt that was interrupted between two kills": [
    BOTH,
    [recorded(1, { ...INTERRUPTED, startedAt: 1100 }), recorded(2)],
    ["attempt 1 was interrupted", UNEXPLAINED],
  ],
  "an attempt that arrives twice": [
    [arrival(1), arrival(1)],
    [recorded(1)],
    ["attempt 1 arrived twice", UNEXPLAINED],
  ],
  "an arrival without a record": [[arrival(1)], [], ["attempt 1 arrived and is not on record"]],
  "a recorded delivery that did not arrive": [[], [recorded(1)], ["attempt 1 did not arrive"]],
};
for (const [name, [arrivals, attempts, expected]] of Object.entries(FAULTY)) {
  test(`the judge finds ${name}`, () => {
    const { faults } = explainArrivals({ arrivals, attempts, killedAt });
    assert.equal(faults.length, expected.length, faults.join("\n"));
    for (const [i, text] of expected.entries()) assert.ok(faults[i]?.includes(text), faults[i]);
  });
}
