import assert from "node:assert/strict";
import { test } from "node:test";

import { isExpiredId, retentionEnd } from "../../src/domain/clock/service-clock.ts";
import { IdGenerator } from "../../src/domain/id.ts";

const DAY = 24 * 3600 * 1000;
const NOW = Date.parse("2030-03-31T09:00:00.000Z");
const FACTS = { now: NOW, retentionMs: 30 * DAY };

function idOf(timeMs: number): string {
  return new IdGenerator().next(timeMs);
}

test("a task is kept for the retention after its end, by the service clock", () => {
  const end = retentionEnd({ at: NOW, steadyAt: 5 }, 30 * DAY);

  assert.equal(end.expiresAt, Date.parse("2030-04-30T09:00:00.000Z"));
  assert.equal(end.eraseAt, 5 + 30 * DAY);
});

test("an unknown id older than the retention is expired", () => {
  assert.equal(isExpiredId(idOf(NOW - 30 * DAY - 1), FACTS), true);
  assert.equal(isExpiredId(idOf(NOW - 300 * DAY), FACTS), true);
  assert.equal(isExpiredId(idOf(0), FACTS), true);
});

test("a newer unknown id is not expired, also from the future", () => {
  for (const time of [NOW - 30 * DAY, NOW - 1, NOW, NOW + DAY]) {
    assert.equal(isExpiredId(idOf(time), FACTS), false);
  }
});

test("text that is not an id is not expired", () => {
  const old = idOf(NOW - 300 * DAY);
  for (const text of ["", "x", old.toUpperCase(), old.replaceAll("-", ""), `${old}\n`]) {
    assert.equal(isExpiredId(text, FACTS), false, text);
  }
});
