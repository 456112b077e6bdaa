import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";

import { positive } from "./kit/number-flag.ts";
import { chooseProgram } from "./program.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";
import { soakTable } from "./soak/report.ts";
import { runSoak, type Span } from "./soak/soak-run.ts";

/**
 * Everything that can go wrong with runners, at random and for a long time: no task may be lost, run under two live
 * leases, or end without a cause, and the daemon may not grow.
 */

const HELP = `node --import tsx scripts/soak.ts [options]
  --minutes N     half of them with kills of the daemon, half without (30)
  --seed N        the plan of tasks and faults (drawn)
  --rate N        tasks a second (40)
  --kill-after A,B
                  seconds from a start of the daemon to its kill, drawn between (20,60)
  --program P     source, binary or a path; by default the binary where it is newer than the sources
  --folder DIR    where the database lies while it runs (the folder for temporary files)
`;

const FAULTS_SHOWN = 30;
const SEED_MAX = 2 ** 31;

await runScript(soak);

async function soak(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      minutes: { type: "string", default: "30" },
      seed: { type: "string" },
      rate: { type: "string", default: "40" },
      "kill-after": { type: "string", default: "20,60" },
      program: { type: "string" },
      folder: { type: "string" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  using scratch = new ScratchFolder(values.folder);
  const program = chooseProgram(values.program);
  const seed = values.seed === undefined ? randomInt(SEED_MAX) : positive("seed", values.seed);
  process.stderr.write(`soaking ${program.name}, --seed ${seed}\n`);
  const report = await runSoak({
    ...{ place: { program, folder: scratch.path }, seed, accounts: 3, workerProcesses: 3 },
    seconds: positive("minutes", values.minutes) * 60,
    tasksPerSecond: positive("rate", values.rate),
    killAfter: span("kill-after", values["kill-after"]),
    workerKillEvery: { min: 4000, max: 15_000 },
    serviceDeathEvery: { min: 10_000, max: 40_000 },
    quietMsMax: 180_000,
    onNews: (text) => process.stderr.write(`  ${text}\n`),
  });
  process.stdout.write(`${soakTable(report)}\n\n${program.name}, --seed ${seed}\n`);
  const { faults } = report;
  if (faults.length > 0)
    throw new Error(`${faults.length} violations:\n${faults.slice(0, FAULTS_SHOWN).join("\n")}`);
}

/** Two numbers of seconds, as milliseconds. */
function span(name: string, text: string): Span {
  const [min, max, ...more] = text.split(",").map((part) => positive(name, part) * 1000);
  if (min !== undefined && max !== undefined && max >= min && more.length === 0)
    return { min, max };
  throw new Error(`--${name} must be two numbers of seconds, such as 20,60`);
}
