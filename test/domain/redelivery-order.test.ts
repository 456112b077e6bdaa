import assert from "node:assert/strict";
import { test } from "node:test";

import {
  beginsAnew,
  examinedBy,
  isWorkedOff,
  shownDeliveryState,
  stepSize,
} from "../../src/domain/webhook/delivery.ts";

test("a step starts at most a hundred series", () => {
  assert.deepEqual([1, 100, 1000, 0, -3].map(stepSize), [1, 100, 100, 0, 0]);
});

test("a step has examined all attempts up to its end, or to the last one it found", () => {
  assert.equal(examinedBy({ found: [], max: 2, to: 90 }), 90);
  assert.equal(examinedBy({ found: [{ seq: 40 }], max: 2, to: 90 }), 90);
  assert.equal(examinedBy({ found: [{ seq: 40 }, { seq: 50 }], max: 2, to: 90 }), 50);
});

test("a bulk redelivery ends at the last attempt that existed at its start", () => {
  assert(!isWorkedOff({ examined: 8, lastAttempt: 9 }));
  assert(isWorkedOff({ examined: 9, lastAttempt: 9 }));
  assert(isWorkedOff({ examined: 0, lastAttempt: 0 }));
});

test("only an ended delivery starts a new series", () => {
  for (const state of ["delivered", "given_up", "refused"] as const) assert(beginsAnew(state));
  for (const state of ["waiting", "open"] as const) assert(!beginsAnew(state));
});

test("an open delivery is scheduled until its attempt starts", () => {
  assert.equal(shownDeliveryState("open", { startedAt: null }), "scheduled");
  assert.equal(shownDeliveryState("open", { startedAt: 5 }), "in_flight");
  assert.equal(shownDeliveryState("given_up", { startedAt: 5 }), "given_up");
});
