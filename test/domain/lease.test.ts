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
const ENDINGS = ["completed", "failed", "released", "expired", "timed_out", "cancelled"] as const;

/** A held lease before its expiry and its deadline. */
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
  ["missing", undefined, "lost", "lost"],
  ["held", HELD, "extend", "stop"],
  ["past its expiry, not ended", RUN_OUT, "extend", "stop"],
  ["expired, task queued", WAITING, "revive", "lost"],
  ["expired, past its timeout", { ...WAITING, deadlineAt: NOW }, "lost", "lost"],
  ["expired, task delayed", { ...WAITING, state: "delayed" }, "lost", "lost"],
  ["stopped, task queued", STOPPED, "lost", "lost"],
  ["task cancelled", CANCELLED, "cancelled", "cancelled"],
  ["completed", lease({ state: "completed", ending: "completed" }), "lost", "lost"],
  ["failed, task queued", lease({ state: "queued", ending: "failed" }), "lost", "lost"],
];

test("a heartbeat extends, revives or stops a lease, by its state and the account's", () => {
  for (const [which, facts, decision, ofSuspended] of BEATS) {
    assert.equal(decideBeat(facts, { now: NOW, isSuspended: false }), decision, which);
    assert.equal(decideBeat(facts, { now: NOW, isSuspended: true }), ofSuspended, which);
  }
});

type How = Exclude<LeaseEnding, "cancelled">;

const ENDS: readonly (readonly [string, LeaseFacts | undefined, How, LeaseEndDecision])[] = [
  ["missing", undefined, "completed", "lost"],
  ["held", HELD, "completed", "end"],
  ["held", HELD, "failed", "end"],
  ["held", HELD, "released", "end"],
  ["held", HELD, "expired", "lost"],
  ["held", HELD, "timed_out", "lost"],
  ["past its expiry", RUN_OUT, "expired", "end"],
  ["past its expiry", RUN_OUT, "timed_out", "end"],
  ["past its expiry", RUN_OUT, "completed", "end"],
  ["expired, task queued", WAITING, "completed", "revive"],
  ["expired, task queued", WAITING, "failed", "revive"],
  ["expired, task queued", WAITING, "released", "end in place"],
  ["expired, task queued", WAITING, "expired", "ended before"],
  ["expired, task queued", WAITING, "timed_out", "lost"],
  ["stopped, task queued", STOPPED, "completed", "revive"],
  ["stopped, task queued", STOPPED, "failed", "lost"],
  ["stopped, task queued", STOPPED, "released", "lost"],
  ["stopped, task queued", STOPPED, "expired", "lost"],
  ["task cancelled", CANCELLED, "completed", "cancelled"],
  ["task cancelled", CANCELLED, "expired", "cancelled"],
];

test("a lease ends by its state and the kind of the end", () => {
  for (const [when, facts, how, decision] of ENDS) {
    assert.equal(decideLeaseEnd(facts, { how, now: NOW }), decision, `${when}, ${how}`);
  }
});

test("an ended lease accepts the same end again and no other", () => {
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

test("only a lease whose task is queued is revived", () => {
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

test("a lease with 3 losses counts another or starts again by how it ends", () => {
  for (const [before, ending, losses] of LOSSES) {
    assert.equal(lossesAfter({ ending: before, losses: 3 }, ending), losses, `${before} ${ending}`);
  }
});

test("reviving a lease cancelled by a suspension counts its run again", () => {
  assert.equal(runsRevived({ ending: "cancelled" }), 1);
  assert.equal(runsRevived({ ending: "expired" }), 0);
});

test("a lease is extended by its full time, at most to its deadline", () => {
  assert.equal(leaseExpiry({ leaseMs: 60, deadlineAt: NOW + 100 }, NOW), NOW + 60);
  assert.equal(leaseExpiry({ leaseMs: 60, deadlineAt: NOW + 50 }, NOW), NOW + 50);
  assert.equal(leaseExpiry({ leaseMs: 60, deadlineAt: NOW - 5 }, NOW), NOW - 5);
});

/** Times in ms around the start of a daemon: claimed ago, lease, timeout; left until the deadline, until the expiry. */
const RESUMED = {
  "a deadline ahead stays": [30, 10, 100, 70, 10],
  "after the timeout one full lease is left": [500, 10, 100, 10, 10],
  "a timeout shorter than the lease limits it": [5, 60, 40, 40, 40],
  "a claim in the future has the timeout left": [-900, 10, 100, 100, 10],
} as const;

test("a start resumes a lease with the time that is left, and at least one lease", () => {
  for (const [what, [ago, leaseMs, timeoutMs, left, wait]] of Object.entries(RESUMED)) {
    const claimedAt = NOW - ago;
    const resumed = resumedLease({ claimedAt, leaseMs, deadlineAt: claimedAt + timeoutMs }, NOW);

    assert.equal(resumed.deadlineAt, NOW + left, what);
    assert.equal(resumed.expiresAt, NOW + wait, what);
    assert.equal(resumed.deadlineAt - resumed.claimedAt, timeoutMs, what);
  }
});
