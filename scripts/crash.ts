import { parseArgs } from "node:util";

import type { DaemonPlace } from "./bench/bench-daemon.ts";
import { runBacklog } from "./crash/backlog-run.ts";
import { runCrashes } from "./crash/crash-run.ts";
import { backlogFaults, backlogTable, crashTable } from "./crash/report.ts";
import { wholeNumber } from "./kit/number-flag.ts";
import { chooseProgram } from "./program.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";

/**
 * Kills postbackd with SIGKILL in the middle of its work and proves that nothing it acknowledged was lost; or,
 * with `--backlog`, measures what a restart costs with so many tasks queued.
 */

const HELP = `node --import tsx scripts/crash.ts [options]
  --rounds N      kills (20)
  --backlog N     measure restarts with N queued tasks instead
  --program P     source, binary or a path; by default the binary where it is newer than the sources
  --folder DIR    where the database lies while it runs (the folder for temporary files)
`;

const CONNECTIONS = 32;
const TASKS_BEFORE_KILL = { min: 50, max: 4000 };
const STALL_MS_MAX = 60_000;
const RESTARTS = 5;

await runScript(crash);

async function crash(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      rounds: { type: "string", default: "20" },
      backlog: { type: "string" },
      program: { type: "string" },
      folder: { type: "string" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  using scratch = new ScratchFolder(values.folder);
  const place = { program: chooseProgram(values.program), folder: scratch.path };
  process.stderr.write(`killing ${place.program.name}\n`);
  if (values.backlog === undefined) await killOften(place, wholeNumber("rounds", values.rounds));
  else await restartOnBacklog(place, wholeNumber("backlog", values.backlog));
}

async function killOften(place: DaemonPlace, rounds: number): Promise<void> {
  const report = await runCrashes({
    ...{ place, rounds, connections: CONNECTIONS },
    ...{ tasksBeforeKill: TASKS_BEFORE_KILL, stallMsMax: STALL_MS_MAX },
    onRound: ({ readyMs, acknowledged, missing }) => {
      const killed = `killed after ${acknowledged} acknowledged tasks, ${missing} webhooks missing`;
      process.stderr.write(`  ready in ${readyMs.toFixed(0)} ms, ${killed}\n`);
    },
  });
  process.stdout.write(`${crashTable(report)}\n`);
}

async function restartOnBacklog(place: DaemonPlace, wanted: number): Promise<void> {
  const tasks = Math.ceil(wanted / 100) * 100;
  const report = await runBacklog({ place, tasks, restarts: RESTARTS });
  const { seconds, rssBytesMax } = report.drain;
  const memory = `with at most ${(rssBytesMax / 1e6).toFixed(0)} MB resident`;
  process.stdout.write(`${backlogTable(report, tasks)}\n\n`);
  process.stdout.write(`Worked off in ${seconds.toFixed(1)} s ${memory}.\n`);
  const faults = backlogFaults(report);
  if (faults.length > 0) throw new Error(`with ${tasks} queued tasks ${faults.join(", and ")}`);
}
