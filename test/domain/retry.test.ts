import assert from "node:assert/strict";
import { test } from "node:test";

import { decideRun } from "../../src/domain/task/run.ts";

const ENDED = Date.parse("2030-01-31T09:00:00.000Z");

const cases = [
  // Failures before, retries configured, wait in seconds or null for the end.
  [0, 0, null],
  [1, 0, null],
  [0, 1, 1],
  [1, 1, null],
  [0, 100, 1],
  [1, 100, 2],
  [2, 100, 4],
  [5, 100, 32],
  [6, 100, 60],
  [7, 100, 60],
  [99, 100, 60],
  [100, 100, null],
  [101, 100, null],
  [5000, 10_000, 60],
] as const;
for (const [failuresBefore, retries, seconds] of cases) {
  const then = seconds === null ? "final" : `tried again after ${seconds} s`;
  test(`failure ${failuresBefore + 1} with ${retries} retries is ${then}`, () => {
    const decision = decideRun({ failuresBefore, retries, endedAt: ENDED });

    const expected =
      seconds === null ? { kind: "final" } : { kind: "again", startAt: ENDED + seconds * 1000 };
    assert.deepEqual(decision, expected);
  });
}
