import { parseArgs } from "node:util";

import type { DaemonPlace } from "./bench/bench-daemon.ts";
import { machineDescription } from "./bench/machine.ts";
import { wholeNumber } from "./kit/number-flag.ts";
import { chooseProgram } from "./program.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";
import { WAIT_SECONDS, measureIdle } from "./workers/idle.ts";
import { budgetLine, idleLines, idleTable, throughputTable } from "./workers/report.ts";
import { measureThroughput } from "./workers/throughput.ts";

/** What workers (contract §7) get done, and what they cost while they wait. */

const PARTS = ["throughput", "idle"];
const BATCHES = [1, 50];

const HELP = `node --import tsx scripts/workers.ts [options]
  --only a,b      ${PARTS.join(", ")} (both)
  --rounds N      measurements of each batch (5)
  --tasks N       tasks of one measurement; batches of 1 get an eighth (40000)
  --workers N     that claim and complete (4)
  --processes N   they are spread over (1)
  --waiting N     workers that wait, each on a connection of its own (1000)
  --seconds N     they are looked at (60)
  --posts N       single tasks that are posted while they wait (200)
  --program P     source, binary or a path; by default the binary where it is newer than the sources
  --folder DIR    where the databases lie while it runs (the folder for temporary files)
`;

await runScript(workers);

async function workers(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      only: { type: "string", default: PARTS.join(",") },
      rounds: { type: "string", default: "5" },
      tasks: { type: "string", default: "40000" },
      workers: { type: "string", default: "4" },
      processes: { type: "string", default: "1" },
      waiting: { type: "string", default: "1000" },
      seconds: { type: "string", default: "60" },
      posts: { type: "string", default: "200" },
      program: { type: "string" },
      folder: { type: "string" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  const parts = values.only.split(",");
  const unknown = parts.find((part) => !PARTS.includes(part));
  if (unknown !== undefined) throw new Error(`--only knows ${PARTS.join(", ")}, not ${unknown}`);
  using scratch = new ScratchFolder(values.folder);
  const place = { program: chooseProgram(values.program), folder: scratch.path };
  const machine = machineDescription(scratch.path);
  process.stderr.write(`measuring ${place.program.name}\n`);
  if (parts.includes("throughput")) await printThroughput(place, values);
  if (parts.includes("idle")) await printIdle(place, values);
  process.stdout.write(`${place.program.name}.\n${machine}\n`);
}

type Numbers<Name extends string> = Readonly<Record<Name, string>>;

async function printThroughput(
  place: DaemonPlace,
  values: Numbers<"rounds" | "tasks" | "workers" | "processes">,
): Promise<void> {
  const count = wholeNumber("workers", values.workers);
  const processes = wholeNumber("processes", values.processes);
  if (count % processes > 0) throw new Error("--processes must divide --workers");
  const runs = await measureThroughput({
    ...{ place, batches: BATCHES, workers: count, processes },
    tasks: wholeNumber("tasks", values.tasks),
    rounds: wholeNumber("rounds", values.rounds),
    onRun: ({ batch, tasksPerSecond }) => {
      process.stderr.write(`  batch ${batch}: ${Math.round(tasksPerSecond)} tasks/s\n`);
    },
  });
  process.stdout.write(`${throughputTable(runs, count)}\n\n${budgetLine(runs)}\n`);
  const how = `${values.rounds} rounds, medians; workers in ${processes} process${processes > 1 ? "es" : ""}`;
  process.stdout.write(
    `\n${how}; inputs of 300 bytes, every completion on disk before its answer.\n\n`,
  );
}

async function printIdle(
  place: DaemonPlace,
  values: Numbers<"waiting" | "seconds" | "posts">,
): Promise<void> {
  const report = await measureIdle({
    place,
    workers: wholeNumber("waiting", values.waiting),
    seconds: wholeNumber("seconds", values.seconds),
    posts: wholeNumber("posts", values.posts),
  });
  process.stdout.write(`${idleTable(report)}\n\n${idleLines(report)}\n`);
  process.stdout.write(
    `\nEach polls with wait_seconds ${WAIT_SECONDS} and again when answered.\n\n`,
  );
}
