import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, startDaemon } from "../kit/daemon-file.ts";
import { number, whole } from "../kit/flags.ts";
import { numberColumns, textTable } from "../kit/text-table.ts";
import { fillDatabase } from "./fill.ts";
import { measureReads, type ReadReport } from "./measure.ts";

const P99_MS_MAX = 20;

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
  const numbers = numberColumns(["answers", "p50 ms", "p99 ms", "slowest ms"]);
  const columns = [{ name: "read" }, ...numbers];
  const rows = report.reads.map(({ name, count, p50Ms, p99Ms, maxMs }) => [
    ...[name, String(count)],
    ...[p50Ms, p99Ms, maxMs].map((ms) => ms.toFixed(1)),
  ]);
  const { tasksBefore, postedPerSecond, rssMb, databaseMb } = report;
  const load =
    `${tasksBefore} tasks in the file before (${databaseMb.toFixed(0)} MB); ` +
    `${postedPerSecond.toFixed(0)} posted, run and finished a second meanwhile; RSS ${rssMb.toFixed(0)} MB.`;
  const late = report.reads.filter(({ p99Ms }) => p99Ms > P99_MS_MAX).map(({ name }) => name);
  const verdict = late.length === 0 ? "kept" : `MISSED by ${late.join(", ")}`;
  const bound = `p99 of every read within ${P99_MS_MAX} ms: ${verdict}`;
  return `${textTable(columns, rows)}\n\n${load}\n${bound}`;
}
