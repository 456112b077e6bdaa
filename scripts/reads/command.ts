import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, startDaemon } from "../kit/daemon-file.ts";
import type { Spread } from "../kit/durations.ts";
import { SPREAD_FIGURES, figureTable, p99Line, type Figure } from "../kit/figures.ts";
import { fillDatabase } from "../kit/fill-tasks.ts";
import { number, whole } from "../kit/flags.ts";
import { measureReads, type ReadReport } from "./measure.ts";

const P99_MS_MAX = 20;
const ANSWERS: Figure<Spread> = { name: "answers", value: ({ count }) => count };

export const command = defineCommand({
  about: `Fills a database with tasks in every state, then measures how long reads take while 1,000 tasks
a second are posted: each read is sent on time, whether the one before has been answered or not.`,
  flags: {
    tasks: whole("tasks in the file before", 1_000_000),
    seconds: number("how long it is measured", 30),
  },
  async run({ tasks, seconds }, { place, print }) {
    const file = await createDaemonFile(place);
    await using daemon = await startDaemon(file);
    await fillDatabase({ file, daemon, tasks });
    const report = await measureReads({ file, daemon, seconds });
    await daemon.stop();
    print(reportText(report));
  },
});

function reportText(report: ReadReport): string {
  const rows = report.reads.map((read) => ({ what: [read.name], runs: [read] }));
  const { tasksBefore, postedPerSecond, rssMb, databaseMb } = report;
  const load =
    `${tasksBefore} tasks in the file before (${databaseMb.toFixed(0)} MB); ` +
    `${postedPerSecond.toFixed(0)} posted, run and finished a second meanwhile; RSS ${rssMb.toFixed(0)} MB.`;
  const table = figureTable([ANSWERS, ...SPREAD_FIGURES], rows, { what: ["read"] });
  return `${table}\n\n${load}\n${p99Line("read", report.reads, P99_MS_MAX)}`;
}
