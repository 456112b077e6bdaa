import { defineCommand } from "../kit/command.ts";
import { percent } from "../kit/figures.ts";
import { text, whole, wholes } from "../kit/flags.ts";
import { numberColumns, textTable, verdict } from "../kit/text-table.ts";
import { measureRuns, type RunsReport } from "./measure.ts";

const RATIO_MIN = 0.8;

export const command = defineCommand({
  about: `Runs command tasks through the real daemon and looks for what they leave behind: zombies, processes,
descriptors, memory. In the same run a bare loop starts the same program without postbackd; the ratio is
what the daemon makes of the machine.`,
  flags: {
    tasks: whole("tasks for each concurrency", 10_000),
    concurrency: wholes("runs at once, each number a measurement of its own", 32),
    command: text("FILE", "absolute path of the program", "/bin/true"),
  },
  async run({ tasks, concurrency: several, command: file }, { place, print }) {
    const reports: RunsReport[] = [];
    for (const concurrency of several) {
      reports.push(await measureRuns({ place, command: file, concurrency, tasks }));
    }
    print(reportText(reports));
    if (reports.some(leftSomething)) process.exitCode = 1;
  },
});

function reportText(reports: readonly RunsReport[]): string {
  const columns = numberColumns([
    ...["at once", "tasks/s", "bare/s", "ratio", "bare/s without pipes"],
    ...["CPU µs/task", "host CPU µs/task", "zombies", "children", "descriptors"],
    ...["RSS MB", "not completed"],
  ]);
  const best = Math.max(...reports.map(ratioOf));
  const rate = `${percent(best)} of the bare rate at best`;
  const bound = `${rate}; at least ${percent(RATIO_MIN)}: ${verdict(best >= RATIO_MIN)}`;
  return `${textTable(columns, reports.map(toRow))}\n\n${bound}`;
}

function toRow(report: RunsReport): readonly string[] {
  const { before, after } = report;
  const rates = [report.tasksPerSecond, report.barePerSecond].map((rate) => rate.toFixed(0));
  return [
    ...[String(report.concurrency), ...rates, percent(ratioOf(report))],
    report.bareIgnorePerSecond.toFixed(0),
    ...[report.cpuMicrosPerTask, report.hostCpuMicrosPerTask].map((micros) => micros.toFixed(0)),
    ...[String(after.zombies), `${before.childPids.length} → ${after.childPids.length}`],
    `${before.descriptors} → ${after.descriptors}`,
    `${before.rssMb.toFixed(0)} → ${after.rssMb.toFixed(0)}`,
    String(report.notCompleted),
  ];
}

function ratioOf({ tasksPerSecond, barePerSecond }: RunsReport): number {
  return tasksPerSecond / barePerSecond;
}

function leftSomething({ before, after, notCompleted }: RunsReport): boolean {
  const more =
    after.childPids.length > before.childPids.length || after.descriptors > before.descriptors;
  return more || after.zombies > 0 || notCompleted > 0;
}
