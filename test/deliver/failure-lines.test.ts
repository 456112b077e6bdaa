import assert from "node:assert/strict";
import { test } from "node:test";

import { FailureLines } from "../../src/deliver/failure-lines.ts";
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
