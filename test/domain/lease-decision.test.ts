import assert from "node:assert/strict";
import { test } from "node:test";

import {
  type BeatDecision,
  type LeaseEndDecision,
  type LeaseEnding,
  type LeaseFacts,
  decideBeat,
  decideLeaseEnd,
  leaseExpiry,
  lossesAfter,
  resumedLease,
  runsRevived,
} from "../../src/domain/lease/lease.ts";
import { STORED_STATES } from "../../src/domain/task/task.ts";

const NOW = 1_000_000;
const ENDINGS: readonly LeaseEnding[] = [
  "completed",
  "failed",
  "released",
  "expired",
  "timed_out",
  "cancelled",
];

/** A lease that holds on: neither run out nor timed out. */
function lease(facts: Partial<LeaseFacts> = {}): LeaseFacts {
  const times = { expiresAt: NOW + 1, deadlineAt: NOW + 10 };
  return { state: "running", ending: null, losses: 0, ...times, ...facts };
}

const HELD = lease();
const RUN_OUT = lease({ expiresAt: NOW });
const WAITING = lease({ state: "queued", ending: "expired", expiresAt: NOW });
const STOPPED = lease({ state: "queued", ending: "cancelled" });
const CANCELLED = lease({ state: "cancelled", ending: "cancelled" });

const BEATS: readonly (readonly [string, LeaseFacts | undefined, BeatDecision, BeatDecision])[] = [
  ["that there is not", undefined, "lost", "lost"],
  ["that is held", HELD, "extend", "stop"],
  ["that ran out and was not ended yet", RUN_OUT, "extend", "stop"],
  ["that expired, its task waiting", WAITING, "revive", "lost"],
  ["that expired, its timeout over", { ...WAITING, deadlineAt: NOW }, "lost", "lost"],
  ["that expired, its task delayed", { ...WAITING, state: "delayed" }, "lost", "lost"],
  ["that was stopped, its task waiting", STOPPED, "lost", "lost"],
  ["whose task was cancelled", CANCELLED, "cancelled", "cancelled"],
  ["that was completed", lease({ state: "completed", ending: "completed" }), "lost", "lost"],
  ["that failed, its task waiting", lease({ state: "queued", ending: "failed" }), "lost", "lost"],
];

for (const [which, facts, decision, ofHeldAccount] of BEATS) {
  test(`a heartbeat for a lease ${which}: ${decision}; of a disabled account: ${ofHeldAccount}`, () => {
    assert.equal(decideBeat(facts, { now: NOW, isSuspended: false }), decision);
    assert.equal(decideBeat(facts, { now: NOW, isSuspended: true }), ofHeldAccount);
  });
}

type How = Exclude<LeaseEnding, "cancelled">;

const ENDS: readonly (readonly [string, LeaseFacts | undefined, How, LeaseEndDecision])[] = [
  ["there is none", undefined, "completed", "lost"],
  ["it is held", HELD, "completed", "end"],
  ["it is held", HELD, "failed", "end"],
  ["it is held", HELD, "released", "end"],
  ["it still holds", HELD, "expired", "lost"],
  ["it still holds", HELD, "timed_out", "lost"],
  ["it has run out", RUN_OUT, "expired", "end"],
  ["it has run out", RUN_OUT, "timed_out", "end"],
  ["it has run out", RUN_OUT, "completed", "end"],
  ["it expired and its task waits", WAITING, "completed", "revive"],
  ["it expired and its task waits", WAITING, "failed", "revive"],
  ["it expired and its task waits", WAITING, "released", "end in place"],
  ["it expired and its task waits", WAITING, "expired", "ended before"],
  ["it expired and its task waits", WAITING, "timed_out", "lost"],
  ["it was stopped and its task waits", STOPPED, "completed", "revive"],
  ["it was stopped and its task waits", STOPPED, "failed", "lost"],
  ["it was stopped and its task waits", STOPPED, "released", "lost"],
  ["it was stopped and its task waits", STOPPED, "expired", "lost"],
  ["its task was cancelled", CANCELLED, "completed", "cancelled"],
  ["its task was cancelled", CANCELLED, "expired", "cancelled"],
];

for (const [when, facts, how, decision] of ENDS) {
  test(`a lease that ends as ${how} where ${when}: ${decision}`, () => {
    assert.equal(decideLeaseEnd(facts, { how, now: NOW }), decision);
  });
}

test("ends a lease the same way again without changing anything, and no other way", () => {
  for (const ending of ENDINGS) {
    if (ending === "cancelled" || ending === "expired") continue;
    for (const state of STORED_STATES) {
      if (state === "cancelled") continue;
      for (const how of ENDINGS) {
        if (how === "cancelled") continue;
        const decision = decideLeaseEnd(lease({ state, ending }), { how, now: NOW });
        assert.equal(decision, how === ending ? "ended before" : "lost", `${state} ${how}`);
      }
    }
  }
});

test("gives a task back to a lease only while it waits, so that nobody else can hold it", () => {
  for (const state of STORED_STATES) {
    for (const ending of [null, ...ENDINGS]) {
      const facts = lease({ state, ending, expiresAt: NOW });
      const decisions = [
        decideBeat(facts, { now: NOW, isSuspended: false }),
        ...(["completed", "failed", "released", "expired", "timed_out"] as const).map((how) =>
          decideLeaseEnd(facts, { how, now: NOW }),
        ),
      ];
      if (decisions.includes("revive")) assert.equal(state, "queued", `${ending}`);
      if (decisions.includes("end")) assert.deepEqual([state, ending], ["running", null]);
    }
  }
});

const LOSSES: readonly (readonly [LeaseEnding | null, LeaseEnding | null, number])[] = [
  [null, "expired", 4],
  [null, "completed", 3],
  [null, "released", 3],
  [null, "timed_out", 3],
  [null, "cancelled", 3],
  [null, "failed", 0],
  ["expired", null, 2],
  ["expired", "completed", 2],
  ["expired", "released", 2],
  ["expired", "failed", 0],
  ["cancelled", "completed", 3],
];

for (const [before, ending, losses] of LOSSES) {
  test(`a lease with 3 losses that was ${before ?? "held"} and is ${ending ?? "held again"} has ${losses}`, () => {
    assert.equal(lossesAfter({ ending: before, losses: 3 }, ending), losses);
  });
}

test("counts a run again that was not counted any more because its account was disabled", () => {
  assert.equal(runsRevived({ ending: "cancelled" }), 1);
  assert.equal(runsRevived({ ending: "expired" }), 0);
});

test("extends a lease by its full time, and never beyond its deadline", () => {
  assert.equal(leaseExpiry({ leaseMs: 60, deadlineAt: NOW + 100 }, NOW), NOW + 60);
  assert.equal(leaseExpiry({ leaseMs: 60, deadlineAt: NOW + 50 }, NOW), NOW + 50);
  assert.equal(leaseExpiry({ leaseMs: 60, deadlineAt: NOW - 5 }, NOW), NOW - 5);
});

const RESUMED = [
  ["that has time left keeps it", { ago: 30, leaseMs: 10, timeoutMs: 100 }, { left: 70, wait: 10 }],
  [
    "past its timeout has one full lease",
    { ago: 500, leaseMs: 10, timeoutMs: 100 },
    { left: 10, wait: 10 },
  ],
  [
    "shorter than its lease has the timeout",
    { ago: 5, leaseMs: 60, timeoutMs: 40 },
    { left: 40, wait: 40 },
  ],
  [
    "claimed in the future has no more than the timeout",
    { ago: -900, leaseMs: 10, timeoutMs: 100 },
    { left: 100, wait: 10 },
  ],
] as const;

for (const [which, { ago, leaseMs, timeoutMs }, { left, wait }] of RESUMED) {
  test(`a lease at a start ${which}`, () => {
    const claimedAt = NOW - ago;
    const resumed = resumedLease({ claimedAt, leaseMs, deadlineAt: claimedAt + timeoutMs }, NOW);

    assert.equal(resumed.deadlineAt, NOW + left);
    assert.equal(resumed.expiresAt, NOW + wait);
    assert.equal(resumed.deadlineAt - resumed.claimedAt, timeoutMs);
  });
}
