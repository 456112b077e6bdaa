import assert from "node:assert/strict";
import { test } from "node:test";

import { LeaseLedger, Ledger } from "../../scripts/soak/ledger.ts";

const TASK = { id: "task", type: "work", leaseId: "a", expiresAt: 3000 };

/** A ledger that knows of one claim: `w` was given the lease `a`. */
function claimedLedger(whole = new Ledger()): LeaseLedger {
  const ledger = new LeaseLedger(whole);
  ledger.take("w", { kind: "claiming", number: 0, at: 990, types: ["work"] });
  ledger.take("w", { kind: "claimed", number: 0, at: 1010, tasks: [TASK] });
  return ledger;
}

test("what processes tell becomes the history of a task, with the times of request and answer", () => {
  const whole = new Ledger();
  const ledger = claimedLedger(whole);
  const items = [{ id: "task", leaseId: "a", result: "1" }];
  ledger.take("w", { kind: "asking", number: 1, at: 1500, what: "complete", items });
  ledger.take("v", { kind: "asking", number: 1, at: 1600, what: "release", items });
  ledger.take("w", { kind: "answered", number: 1, at: 1520, outcomes: ["ok"] });
  whole.cancel("task", { sentAt: 1700, acknowledgedAt: null });

  const { claims, asks, cancel } = ledger.history("task");

  assert.deepEqual(claims, [{ leaseId: "a", sentAt: 990, answeredAt: 1010, expiresAt: 3000 }]);
  const common = { leaseId: "a", result: "1" };
  assert.deepEqual(asks, [
    { what: "complete", ...common, sentAt: 1500, answeredAt: 1520, outcome: "ok" },
    { what: "release", ...common, sentAt: 1600, answeredAt: null, outcome: null },
  ]);
  assert.deepEqual(cancel, { sentAt: 1700, acknowledgedAt: null });
  assert.deepEqual([...whole.finished], [["task", "1"]]);
  assert.equal(ledger.count.ok, 1);
});

test("claims that a killed process or a broken connection left unanswered are lost", () => {
  const ledger = claimedLedger();
  ledger.take("w", { kind: "claiming", number: 1, at: 2000, types: ["work"] });
  ledger.take("v", { kind: "claiming", number: 1, at: 2100, types: ["brief"] });
  ledger.take("v", { kind: "unclaimed", number: 1, at: 2200 });
  ledger.gone("w", 2300);

  const [broken, killed] = ledger.lostClaims;

  assert.equal(ledger.lostClaims.length, 2);
  assert.deepEqual([broken?.types, broken?.from], [["brief"], 2100]);
  assert.deepEqual([killed?.types, killed?.from], [["work"], 2000]);
  assert(broken !== undefined && broken.to >= 2200 && killed !== undefined && killed.to >= 2300);
});

test("a task is settled once, and again when it has changed", () => {
  const ledger = claimedLedger();
  const settled = (before: number): number => [...ledger.settled(before)].length;

  assert.equal(settled(1000), 0);
  assert.equal(settled(2000), 1);
  assert.equal(settled(2000), 0);
  const items = [{ id: "task", leaseId: "a" }];
  ledger.take("w", { kind: "asking", number: 1, at: 1500, what: "release", items });
  assert.equal(settled(2000), 1);
});

test("a task of a type that was not asked for, and what a process blames the daemon for, are faults", () => {
  const ledger = new LeaseLedger(new Ledger());
  ledger.take("w", { kind: "claiming", number: 0, at: 990, types: ["brief"] });
  ledger.take("w", { kind: "claimed", number: 0, at: 1010, tasks: [TASK] });
  ledger.take("w", { kind: "fault", text: "complete: 500" });

  assert.deepEqual(ledger.faults, ["task is of another type than asked for", "complete: 500"]);
});
