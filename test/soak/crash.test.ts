import assert from "node:assert/strict";
import { test } from "node:test";

import { sourceProgram } from "../../scripts/kit/program.ts";
import { ScratchFolder } from "../../scripts/kit/scratch-folder.ts";
import { crashTable } from "../../scripts/soak/crash-report.ts";
import { runCrashes, type CrashRound } from "../../scripts/soak/crash-run.ts";

// The long version: scripts/soak.ts crash.
test("kill -9 loses no acknowledged task, webhook, key or cancelling, and damages no database", async (t) => {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const rounds: CrashRound[] = [];

  const report = await runCrashes({
    place: { program: sourceProgram(), folder: scratch.path },
    rounds: 3,
    connections: 8,
    tasksBeforeKill: { min: 20, max: 300 },
    stallMsMax: 60_000,
    onRound: (round) => rounds.push(round),
  });

  assert.equal(rounds.length, 3);
  assert(rounds.every(({ acknowledged }) => acknowledged >= 20));
  assert.deepEqual(report.faults, []);
  assert.equal(report.count.missing, 0);
  assert(report.count.webhooks >= 2 * report.count.acknowledged);
  assert(report.count.failed > 0, "no receiver failed");
  assert.equal(report.kills, 4);
  assert(report.duplicates <= report.unrecordedMs.length);
  assert.equal(report.restartMs.length, 3);
  assert(report.careful.posts > 0 && report.careful.repeated > 0);
  assert(report.cancelled > 0);
  assert.match(crashTable(report), /integrity_check/);
});
