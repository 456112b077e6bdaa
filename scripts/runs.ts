import { parseArgs } from "node:util";

import { machineDescription } from "./bench/machine.ts";
import { wholeNumber } from "./kit/number-flag.ts";
import { chooseProgram } from "./program.ts";
import { measureRuns, type RunsReport } from "./runs/measure.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";
import { textTable } from "./text-table.ts";

const HELP = `node --import tsx scripts/runs.ts [options]

Runs command tasks through the real daemon and looks for what they leave behind: zombies, processes,
descriptors, memory. In the same run a bare loop starts the same program without postbackd; the ratio is
what the daemon makes of the machine.

  --tasks N         tasks for each concurrency (10000)
  --concurrency N,… runs at once, each number a measurement of its own (32)
  --command FILE    absolute path of the program (/bin/true)
  --program P       source, binary, or an executable (the binary, if it is newer than the sources)
  --folder DIR      where the database lies while it runs (the folder for temporary files)
`;

const RATIO_MIN = 0.8;

await runScript(runs);

async function runs(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      tasks: { type: "string", default: "10000" },
      concurrency: { type: "string", default: "32" },
      command: { type: "string", default: "/bin/true" },
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
  const machine = machineDescription(scratch.path);
  process.stderr.write(`running ${values.command} by ${program.name}\n`);
  const common = { program, folder: scratch.path, command: values.command };
  const reports: RunsReport[] = [];
  const tasks = wholeNumber("tasks", values.tasks);
  for (const text of values.concurrency.split(",")) {
    const concurrency = wholeNumber("concurrency", text);
    reports.push(await measureRuns({ ...common, concurrency, tasks }));
  }
  print(reports);
  process.stdout.write(`${program.name}. ${machine}\n`);
  if (reports.some(leftSomething)) process.exitCode = 1;
}

function print(reports: readonly RunsReport[]): void {
  const names = ["at once", "tasks/s", "bare/s", "ratio", "bare/s without pipes"];
  const more = [
    "CPU µs/task",
    "host CPU µs/task",
    "zombies",
    "children",
    "descriptors",
    "RSS MB",
    "not completed",
  ];
  const columns = [...names, ...more].map((name) => ({ name, align: "right" }) as const);
  process.stdout.write(`${textTable(columns, reports.map(toRow))}\n\n`);
  const best = Math.max(...reports.map(ratioOf));
  const verdict = best >= RATIO_MIN ? "kept" : "MISSED";
  process.stdout.write(
    `${percent(best)} of the bare rate at best; at least ${percent(RATIO_MIN)}: ${verdict}\n`,
  );
}

function toRow(report: RunsReport): readonly string[] {
  const { before, after } = report;
  const rates = [report.tasksPerSecond, report.barePerSecond].map((rate) => rate.toFixed(0));
  return [
    ...[String(report.concurrency), ...rates, percent(ratioOf(report))],
    report.bareIgnorePerSecond.toFixed(0),
    ...[report.cpuMicrosPerTask, report.hostCpuMicrosPerTask].map((micros) => micros.toFixed(0)),
    ...[String(after.zombies), `${before.children} → ${after.children}`],
    `${before.descriptors} → ${after.descriptors}`,
    `${before.rssMb.toFixed(0)} → ${after.rssMb.toFixed(0)}`,
    String(report.notCompleted),
  ];
}

function ratioOf({ tasksPerSecond, barePerSecond }: RunsReport): number {
  return tasksPerSecond / barePerSecond;
}

function leftSomething({ before, after, notCompleted }: RunsReport): boolean {
  const more = after.children > before.children || after.descriptors > before.descriptors;
  return more || after.zombies > 0 || notCompleted > 0;
}

function percent(ratio: number): string {
  return `${(ratio * 100).toFixed(0)} %`;
}
