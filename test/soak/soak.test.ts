import assert from "node:assert/strict";
import { test } from "node:test";

import { sourceProgram } from "../../scripts/kit/program.ts";
import { ScratchFolder } from "../../scripts/kit/scratch-folder.ts";
import { soakTable } from "../../scripts/soak/report.ts";
import { runSoak } from "../../scripts/soak/soak-run.ts";

// The long version: scripts/soak.ts.
test("a soak of seconds loses no task, runs none under two live leases, and explains every end", async (t) => {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const news: string[] = [];

  const report = await runSoak({
    ...{ place: { program: sourceProgram(), folder: scratch.path }, seed: 20_260_721 },
    ...{ seconds: 6, tasksPerSecond: 30, accounts: 2, workerProcesses: 2 },
    killAfter: { min: 1000, max: 2000 },
    workerKillEvery: { min: 1500, max: 2500 },
    serviceDeathEvery: { min: 1000, max: 3000 },
    quietMsMax: 90_000,
    onNews: (text) => news.push(text),
  });

  assert.deepEqual(report.faults, []);
  assert(report.kills >= 1 && report.workerKills >= 1, "nobody was killed");
  assert(report.completed > 0 && report.leases.completed > 0, "nothing was done");
  assert.equal(report.completed + report.failed + report.cancelled, report.acknowledged);
  assert.match(soakTable(report), /tasks run under two live leases/);
});
