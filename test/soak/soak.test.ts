import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { sourceProgram } from "../../scripts/kit/program.ts";
import { ScratchFolder } from "../../scripts/kit/scratch-folder.ts";
import { EAGER } from "../../scripts/soak/client.ts";
import { soakTable } from "../../scripts/soak/report.ts";
import { runSoak, type SoakOptions, type SoakReport } from "../../scripts/soak/soak-run.ts";
import { everyRunner, lightTasks } from "../../scripts/soak/task-plan.ts";

// The long versions: scripts/soak.ts.
function soak(
  t: TestContext,
  options: Omit<SoakOptions, "place" | "seed" | "stallMsMax" | "onNews">,
): Promise<SoakReport> {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const place = { program: sourceProgram(), folder: scratch.path };
  const common = { place, seed: 20_260_721, stallMsMax: 90_000, onNews: () => {} };
  return runSoak({ ...options, ...common });
}

test("a soak of seconds loses no task, runs none under two live leases, and explains every end", async (t) => {
  const report = await soak(t, {
    ...{ accounts: 2, loadConnections: 0, workerProcesses: 2 },
    habit: { lanes: 2, pauseMs: 500, plan: everyRunner, missingMax: 6000 },
    ...{ rounds: Infinity, killSeconds: 3, calmSeconds: 3 },
    killAfter: { unit: "ms", min: 1000, max: 2000 },
    killsStarts: false,
    workerKillEvery: { min: 1500, max: 2500 },
    serviceDeathEvery: { min: 1000, max: 3000 },
  });

  const { ledger } = report;
  assert.deepEqual(report.faults, []);
  assert(report.kills >= 1 && report.workerKills >= 1, "nobody was killed");
  assert(report.completed > 0 && ledger.finished.size > 0, "nothing was done");
  assert.equal(report.completed + report.failed + report.cancelled, ledger.tasks.size);
  assert.match(soakTable(report), /tasks run under two live leases/);
});

test("kill -9 loses no acknowledged task, webhook, key or cancelling, and damages no database", async (t) => {
  const report = await soak(t, {
    ...{ accounts: 1, loadConnections: 8, workerProcesses: 0 },
    habit: { ...EAGER, plan: lightTasks },
    ...{ rounds: 3, killSeconds: Infinity, calmSeconds: 0 },
    killAfter: { unit: "tasks", min: 20, max: 300 },
    killsStarts: true,
    ...{ workerKillEvery: null, serviceDeathEvery: null },
  });

  const { ledger, lives, clients } = report;
  assert.deepEqual(report.faults, []);
  assert.equal(lives.length, 4);
  assert(lives.slice(0, 3).every(({ acknowledged }) => acknowledged >= 20));
  assert.equal(ledger.missing, 0);
  assert(ledger.arrivals.length >= 2 * (ledger.tasks.size - ledger.cancelled.size));
  assert(
    ledger.arrivals.some(({ status }) => status === 500),
    "no receiver failed",
  );
  assert.equal(report.kills, 4);
  assert(report.duplicates <= report.unrecordedMs.length);
  assert(clients.every(({ posts, repeated }) => posts > 0 && repeated > 0));
  assert(ledger.cancelled.size > 0);
  assert.match(soakTable(report), /integrity_check/);
});
