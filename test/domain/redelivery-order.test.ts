import assert from "node:assert/strict";
import { test } from "node:test";

import {
  beginsAnew,
  examinedBy,
  isWorkedOff,
  shownDeliveryState,
  stepSize,
} from "../../src/domain/webhook/delivery.ts";

test("a step begins as many series as are wanted, and a hundred at most", () => {
  const cases = [
    [1, 1],
    [100, 100],
    [1000, 100],
    [0, 0],
    [-3, 0],
  ] as const;
  for (const [wanted, size] of cases) assert.equal(stepSize(wanted), size);
});

const STEPS = [
  ["found nothing", [], 2, 90, 90],
  ["found fewer than it may begin", [40], 2, 90, 90],
  ["is full", [40, 50], 2, 90, 50],
] as const;

for (const [which, seqs, max, to, examined] of STEPS) {
  test(`a step over attempts up to ${to} that ${which} has come to ${examined}`, () => {
    assert.equal(examinedBy({ found: seqs.map((seq) => ({ seq })), max, to }), examined);
  });
}

test("an order is worked off at the last attempt that there was when it was given", () => {
  assert(!isWorkedOff({ examined: 8, lastAttempt: 9 }));
  assert(isWorkedOff({ examined: 9, lastAttempt: 9 }));
  assert(isWorkedOff({ examined: 0, lastAttempt: 0 }));
});

test("what has ended begins a fresh series when it is sent again, and nothing else does", () => {
  for (const state of ["delivered", "given_up", "refused"] as const) assert(beginsAnew(state));
  for (const state of ["waiting", "open"] as const) assert(!beginsAnew(state));
});

test("an open delivery is scheduled until its last attempt has started", () => {
  assert.equal(shownDeliveryState("open", { startedAt: null }), "scheduled");
  assert.equal(shownDeliveryState("open", { startedAt: 5 }), "in_flight");
  assert.equal(shownDeliveryState("given_up", { startedAt: 5 }), "given_up");
});
