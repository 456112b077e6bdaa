import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { sourceProgram } from "../../scripts/kit/daemon.ts";
import { ScratchFolder } from "../../scripts/kit/scratch.ts";
import { runSoak, type SoakReport } from "../../scripts/soak/crash.ts";
import { crashes, everyFault, type Profile } from "../../scripts/soak/profiles.ts";
import { soakTable } from "../../scripts/soak/report.ts";

// The long forms: scripts/soak.ts.
function soak(t: TestContext, profile: Profile): Promise<SoakReport> {
  const scratch = new ScratchFolder();
  t.after(() => scratch[Symbol.dispose]());
  const place = { program: sourceProgram(), folder: scratch.path };
  const common = { place, seed: 20_260_721, stallMsMax: 90_000, onNews: () => {} };
  return runSoak({ ...profile, ...common });
}

test("a short soak loses no task, runs no task under two valid leases, and explains every end", async (t) => {
  const killAfter = { min: 1000, max: 2000 };
  const report = await soak(t, {
    ...everyFault({ seconds: 6, rate: 30, killAfter }),
    ...{ accounts: 2, workerProcesses: 2 },
    workerKillEvery: { min: 1500, max: 2500 },
    serviceDeathEvery: { min: 1000, max: 3000 },
  });

  const { ledger } = report;
  assert.deepEqual(report.faults, []);
  assert(report.kills >= 1 && report.workerKills >= 1, "no kill");
  assert(report.completed > 0 && ledger.finished.size > 0, "no end");
  assert.equal(report.completed + report.failed + report.cancelled, ledger.tasks.size);
  assert.match(soakTable(report), /tasks run under two live leases/);
});

test("kill -9 loses no acknowledged task, webhook, key or cancelling, and damages no database", async (t) => {
  const killAfter = { unit: "tasks", min: 20, max: 300 } as const;
  const report = await soak(t, { ...crashes(3), loadConnections: 8, killAfter });

  const { ledger, lives, clients } = report;
  assert.deepEqual(report.faults, []);
  assert.equal(lives.length, 4);
  assert(lives.slice(0, 3).every(({ acknowledged }) => acknowledged >= 20));
  assert.equal(ledger.missing, 0);
  assert(ledger.arrivals.length >= 2 * (ledger.tasks.size - ledger.cancelled.size));
  assert(
    ledger.arrivals.some(({ status }) => status === 500),
    "no failure of a receiver",
  );
  assert.equal(report.kills, 4);
  assert(report.duplicates <= report.unrecordedMs.length);
  assert(clients.every(({ posts, repeated }) => posts > 0 && repeated > 0));
  assert(ledger.cancelled.size > 0);
  assert.match(soakTable(report), /integrity_check/);
});
