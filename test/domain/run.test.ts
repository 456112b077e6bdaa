import assert from "node:assert/strict";
import { test } from "node:test";

import { decideRun } from "../../src/domain/task/run.ts";

const ENDED = Date.parse("2030-01-31T09:00:00.000Z");

/** Failures before, retries configured, and the wait in seconds, null after the last. */
const CASES = [
  ...["0 0 null", "1 0 null", "0 1 1", "1 1 null", "0 100 1", "1 100 2", "2 100 4", "5 100 32"],
  ...["6 100 60", "7 100 60", "99 100 60", "100 100 null", "101 100 null", "5000 10000 60"],
];

test("a failed run is retried after a doubled wait of at most a minute, until its retries are used", () => {
  for (const text of CASES) {
    const [failuresBefore, retries, seconds] = JSON.parse(`[${text.replaceAll(" ", ",")}]`);
    const decision = decideRun({ failuresBefore, retries, endedAt: ENDED });

    const expected =
      seconds === null ? { kind: "final" } : { kind: "again", startAt: ENDED + seconds * 1000 };
    assert.deepEqual(decision, expected, text);
  }
});
