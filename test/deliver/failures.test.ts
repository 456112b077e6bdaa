import assert from "node:assert/strict";
import { test } from "node:test";

import { FailureLines } from "../../src/deliver/failure-lines.ts";
import { HealthRecord } from "../../src/deliver/health-record.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

function start() {
  const lines: LogFacts[] = [];
  const info = (facts: LogFacts): void => void lines.push(facts);
  const log: Logger = { debug() {}, info, warn() {}, error() {} };
  const clock = createFakeClock({ now: 0 });
  return { lines, clock, failures: new FailureLines({ clock, log }, "a run failed") };
}

test("each subject logs its first failure, then one a minute with the number of others", () => {
  const { lines, clock, failures } = start();
  for (let second = 0; second < 61; second++) {
    for (const type of ["print", "scan"]) failures.note(type, { type, second });
    clock.advance(1000);
  }

  assert.deepEqual(lines, [
    { type: "print", second: 0, others_since: 0 },
    { type: "scan", second: 0, others_since: 0 },
    { type: "print", second: 60, others_since: 59 },
    { type: "scan", second: 60, others_since: 59 },
  ]);
});

test("failures of any number of subjects log at most a thousand lines", () => {
  const { lines, clock, failures } = start();
  for (let host = 0; host < 5000; host++) failures.note(`h${host}`, { host });
  assert.equal(lines.length, 1001);

  clock.advance(60_000);
  failures.note("h4999", { host: 4999 });
  assert.deepEqual(lines.at(-1), { host: 4999, others_since: 0 });
});

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
