import assert from "node:assert/strict";
import { test } from "node:test";

import type { LogFacts, Logger } from "../../src/domain/log.ts";
import { FailedRuns } from "../../src/engine/run/failed-runs.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";

test("of each type the first failed run is told, then one a minute with the number of others", () => {
  const lines: LogFacts[] = [];
  const info = (facts: LogFacts): void => void lines.push(facts);
  const log: Logger = { debug() {}, info, warn() {}, error() {} };
  const clock = createFakeClock({ now: 0 });
  const failed = new FailedRuns({ clock, log });
  const reason = "The command exited with code 1.";
  for (let second = 0; second < 61; second++) {
    for (const type of ["print", "scan"]) failed.note({ type, id: `${type}-${second}`, reason });
    clock.advance(1000);
  }

  assert.deepEqual(lines, [
    { type: "print", id: "print-0", reason, others_since: 0 },
    { type: "scan", id: "scan-0", reason, others_since: 0 },
    { type: "print", id: "print-60", reason, others_since: 59 },
    { type: "scan", id: "scan-60", reason, others_since: 59 },
  ]);
});
