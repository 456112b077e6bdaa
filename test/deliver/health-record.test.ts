import assert from "node:assert/strict";
import { test } from "node:test";

import { HealthRecord } from "../../src/deliver/health-record.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";

const NONE = { all: 0, failed: 0 };

test("a receiver with a delivery in any minute of the window has not failed", () => {
  const record = new HealthRecord();
  record.noteAttempt("first.example", true, 0);
  record.noteAttempt("first.example", false, 1);
  record.noteAttempt("second.example", false, 2);
  record.noteAttempt("third.example", false, 3);
  record.noteAttempt("first.example", false, 2 * MINUTE_MS);
  record.noteAttempt("second.example", true, 2 * MINUTE_MS);

  assert.deepEqual(record.counts(2 * MINUTE_MS).receivers, { all: 3, failed: 1 });
});

test("a run counts for at least four and at most five minutes", () => {
  const record = new HealthRecord();
  record.noteRun(false, 0);
  record.noteRun(false, MINUTE_MS - 1);
  record.noteAttempt("a.example", false, MINUTE_MS - 1);
  record.noteRun(true, 3 * MINUTE_MS);

  assert.deepEqual(record.counts(5 * MINUTE_MS - 1).runs, { all: 3, failed: 2 });
  assert.deepEqual(record.counts(5 * MINUTE_MS).runs, { all: 1, failed: 0 });
  assert.deepEqual(record.counts(5 * MINUTE_MS).receivers, NONE);
  assert.deepEqual(record.counts(8 * MINUTE_MS).runs, NONE);
});

test("a minute holds a thousand receivers, at most half of them failing", () => {
  const record = new HealthRecord();
  for (let i = 0; i < 5000; i++) record.noteAttempt(`h${i}.example`, i >= 1000, 0);
  record.noteAttempt("h0.example", true, 0);

  assert.deepEqual(record.counts(0).receivers, { all: 1000, failed: 499 });
});

test("the record holds six minutes, even if no caller reads it", () => {
  const record = new HealthRecord();
  for (let minute = 0; minute < 10_000; minute++) record.noteRun(true, minute * MINUTE_MS);

  assert.deepEqual(record.counts(9999 * MINUTE_MS).runs, { all: 5, failed: 0 });
});

test("a host may have the name of a property of all objects", () => {
  const record = new HealthRecord();
  for (const host of ["__proto__", "constructor", "toString"]) record.noteAttempt(host, false, 0);

  assert.deepEqual(record.counts(0).receivers, { all: 3, failed: 3 });
});
