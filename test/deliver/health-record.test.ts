import assert from "node:assert/strict";
import { test } from "node:test";

import { HealthRecord } from "../../src/deliver/health-record.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";

const NONE = { all: 0, failed: 0 };

test("knows of nothing at first", () => {
  assert.deepEqual(new HealthRecord().counts(0), { runs: NONE, receivers: NONE });
});

test("counts runs, and those that failed among them", () => {
  const record = new HealthRecord();
  for (const isFine of [true, false, true, false, false]) record.noteRun(isFine, 10);

  assert.deepEqual(record.counts(10), { runs: { all: 5, failed: 3 }, receivers: NONE });
});

test("counts a receiver once, however often it was tried", () => {
  const record = new HealthRecord();
  for (let i = 0; i < 100; i++) record.noteAttempt("broken.example", false, i);
  record.noteAttempt("fine.example", true, 100);

  assert.deepEqual(record.counts(100).receivers, { all: 2, failed: 1 });
});

test("a receiver that took anything in the window has not failed, whichever minute it was in", () => {
  const record = new HealthRecord();
  record.noteAttempt("first.example", true, 0);
  record.noteAttempt("first.example", false, 1);
  record.noteAttempt("second.example", false, 2);
  record.noteAttempt("third.example", false, 3);
  record.noteAttempt("first.example", false, 2 * MINUTE_MS);
  record.noteAttempt("second.example", true, 2 * MINUTE_MS);

  assert.deepEqual(record.counts(2 * MINUTE_MS).receivers, { all: 3, failed: 1 });
});

test("forgets what is five minutes old, and nothing that is less than four", () => {
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

test("what failed and was mended is operational again when the failures are out of the window", () => {
  const record = new HealthRecord();
  for (let i = 0; i < 50; i++) record.noteRun(false, i);
  for (let minute = 1; minute <= 5; minute++) record.noteRun(true, minute * MINUTE_MS);

  assert.deepEqual(record.counts(5 * MINUTE_MS + 50).runs, { all: 5, failed: 0 });
});

test("holds a thousand receivers of a minute, and of those that fail leaves room for the others", () => {
  const record = new HealthRecord();
  for (let i = 0; i < 5000; i++) record.noteAttempt(`h${i}.example`, i >= 1000, 0);
  record.noteAttempt("h0.example", true, 0);

  assert.deepEqual(record.counts(0).receivers, { all: 1000, failed: 499 });
});

test("holds no more than six minutes, however long it is fed and never asked", () => {
  const record = new HealthRecord();
  for (let minute = 0; minute < 10_000; minute++) record.noteRun(true, minute * MINUTE_MS);

  assert.deepEqual(record.counts(9999 * MINUTE_MS).runs, { all: 5, failed: 0 });
});

test("a host's name may be any, those that objects are born with too", () => {
  const record = new HealthRecord();
  for (const host of ["__proto__", "constructor", "toString"]) record.noteAttempt(host, false, 0);

  assert.deepEqual(record.counts(0).receivers, { all: 3, failed: 3 });
});
