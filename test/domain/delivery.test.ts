import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { decideDelivery, type AttemptOutcome } from "../../src/domain/webhook/delivery.ts";

const ENDED = Date.parse("2030-01-31T09:00:00.000Z");
const MINUTE = 60_000;
const SCHEDULE = [MINUTE, 5 * MINUTE, 15 * MINUTE];

function scheduled(waitMs: number, retry: number) {
  return { state: "scheduled", dueAt: ENDED + waitMs, retry } as const;
}

const cases = [
  ["delivered", 0, { state: "delivered" }],
  ["delivered", 3, { state: "delivered" }],
  ["refused", 0, { state: "refused" }],
  ["refused", 2, { state: "refused" }],
  ["failed", 0, scheduled(MINUTE, 1)],
  ["failed", 1, scheduled(5 * MINUTE, 2)],
  ["failed", 2, scheduled(15 * MINUTE, 3)],
  ["failed", 3, { state: "given_up" }],
  ["timed_out", 0, scheduled(MINUTE, 1)],
  ["timed_out", 3, { state: "given_up" }],
  ["interrupted", 0, scheduled(0, 0)],
  ["interrupted", 3, scheduled(0, 3)],
] as const;
test("an attempt decides the delivery by its outcome and the retries used", () => {
  for (const [outcome, retriesUsed, expected] of cases) {
    const facts = { endedAt: ENDED, retriesUsed, retryAfterMs: SCHEDULE };

    assert.deepEqual(decideDelivery(outcome, facts), expected, `${outcome} ${retriesUsed}`);
  }
});

test("a delivery without configured retries is given up after one attempt", () => {
  const facts = { endedAt: ENDED, retriesUsed: 0, retryAfterMs: [] };

  assert.deepEqual(decideDelivery("failed", facts), { state: "given_up" });
  assert.deepEqual(decideDelivery("interrupted", facts), scheduled(0, 0));
});

test("a delivery is given up if the schedule is shorter than the retries used", () => {
  const facts = { endedAt: ENDED, retriesUsed: 5, retryAfterMs: SCHEDULE };

  assert.deepEqual(decideDelivery("timed_out", facts), { state: "given_up" });
});

test("a delivery has at most four attempts that count, each after its wait", () => {
  const outcome = fc.constantFrom<AttemptOutcome>(
    ...(["delivered", "failed", "timed_out", "refused", "interrupted"] as const),
  );
  fc.assert(
    fc.property(fc.array(outcome, { minLength: 1, maxLength: 40 }), (outcomes) => {
      let [endedAt, retriesUsed, counted] = [ENDED, 0, 0];
      for (const each of outcomes) {
        const decision = decideDelivery(each, { endedAt, retriesUsed, retryAfterMs: SCHEDULE });
        if (each !== "interrupted") counted++;
        if (decision.state !== "scheduled") break;
        const wait = each === "interrupted" ? 0 : SCHEDULE[retriesUsed];
        assert.equal(decision.dueAt - endedAt, wait);
        retriesUsed = decision.retry;
        endedAt = decision.dueAt + 1;
      }
      assert(counted <= 4);
      assert(retriesUsed <= 3);
    }),
  );
});
