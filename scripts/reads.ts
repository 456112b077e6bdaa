import { parseArgs } from "node:util";

import { createDaemonFile, startDaemon } from "./bench/bench-daemon.ts";
import { chooseProgram } from "./program.ts";
import { fillDatabase } from "./reads/fill.ts";
import { measureReads, type ReadReport } from "./reads/measure.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";
import { textTable } from "./text-table.ts";

const HELP = `node --import tsx scripts/reads.ts [options]

Fills a database with tasks in every state, then measures how long reads take while 1,000 tasks
a second are posted: each read is sent on time, whether the one before has been answered or not.

  --tasks N       tasks in the file before (1000000)
  --seconds S     how long it is measured (30)
  --program P     source, binary, or an executable (the binary, if it is newer than the sources)
  --folder DIR    where the database lies while it runs (the folder for temporary files)
`;

const P99_MS_MAX = 20;

await runScript(reads);

async function reads(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      tasks: { type: "string", default: "1000000" },
      seconds: { type: "string", default: "30" },
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
  process.stderr.write(`reading from ${program.name}\n`);
  const file = await createDaemonFile({ program, folder: scratch.path });
  await using daemon = await startDaemon(file);
  await fillDatabase({ file, daemon, tasks: Number(values.tasks) });
  const report = await measureReads({ file, daemon, seconds: Number(values.seconds) });
  await daemon.stop();
  print(report);
}

function print(report: ReadReport): void {
  const right = { align: "right" } as const;
  const numbers = ["answers", "p50 ms", "p99 ms", "slowest ms"];
  const columns = [{ name: "read" }, ...numbers.map((name) => ({ name, ...right }))];
  const rows = report.reads.map(({ name, count, p50Ms, p99Ms, maxMs }) => [
    ...[name, String(count)],
    ...[p50Ms, p99Ms, maxMs].map((ms) => ms.toFixed(1)),
  ]);
  process.stdout.write(`${textTable(columns, rows)}\n\n`);
  const { tasksBefore, postedPerSecond, rssMb, databaseMb } = report;
  process.stdout.write(
    `${tasksBefore} tasks in the file before (${databaseMb.toFixed(0)} MB); ` +
      `${postedPerSecond.toFixed(0)} posted, run and finished a second meanwhile; RSS ${rssMb.toFixed(0)} MB.\n`,
  );
  const late = report.reads.filter(({ p99Ms }) => p99Ms > P99_MS_MAX).map(({ name }) => name);
  const verdict = late.length === 0 ? "kept" : `MISSED by ${late.join(", ")}`;
  process.stdout.write(`p99 of every read within ${P99_MS_MAX} ms: ${verdict}\n`);
}
