import { parseArgs } from "node:util";

import { machineDescription } from "./bench/machine.ts";
import { PHASE_LETTERS, measurePhases } from "./bench/measurement.ts";
import { budgetLines, reportTable } from "./bench/report.ts";
import { positive } from "./kit/number-flag.ts";
import { chooseProgram } from "./program.ts";
import { ScratchFolder } from "./scratch-folder.ts";
import { runScript } from "./script.ts";

/**
 * `npm run bench`: what postbackd takes in and delivers on this machine, beside a bare h3 handler measured in
 * the same run. Prints a Markdown table and leaves nothing behind.
 */

const HELP = `npm run bench -- [options]
  --seconds N       of each measurement (1)
  --rounds N        measurements of each phase (7)
  --connections N   of the load generator (64)
  --tasks N         tasks of each measurement of (d) (2500)
  --only a,b,…      phases: ${PHASE_LETTERS.join(", ")}
  --program P       source, binary or a path; by default the binary where it is newer than the sources
  --folder DIR      where the databases lie while it runs (the folder for temporary files)
`;

await runScript(bench);

async function bench(): Promise<void> {
  const { values } = parseArgs({
    options: {
      help: { type: "boolean", default: false },
      seconds: { type: "string", default: "1" },
      rounds: { type: "string", default: "7" },
      connections: { type: "string", default: "64" },
      tasks: { type: "string", default: "2500" },
      only: { type: "string", default: PHASE_LETTERS.join(",") },
      program: { type: "string" },
      folder: { type: "string" },
    },
  });
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  const seconds = positive("seconds", values.seconds);
  const connections = positive("connections", values.connections);
  const effort = { seconds, connections, tasks: positive("tasks", values.tasks) };
  const rounds = positive("rounds", values.rounds);
  const program = chooseProgram(values.program);
  using scratch = new ScratchFolder(values.folder);
  const machine = machineDescription(scratch.path);
  process.stderr.write(`measuring ${program.name}\n`);
  const results = await measurePhases({
    ...{ effort, rounds, letters: parseLetters(values.only) },
    place: { program, folder: scratch.path },
    onSlice: ({ letter }, { tasksPerSecond, p99Ms }) => {
      const rate = Math.round(tasksPerSecond);
      process.stderr.write(`  (${letter}) ${rate} tasks/s, p99 ${p99Ms.toFixed(1)} ms\n`);
    },
  });
  const how = `${program.name}; ${rounds} rounds; HTTP without TLS on loopback, inputs of 300 bytes`;
  process.stdout.write(
    `${reportTable(results)}\n\n${budgetLines(results)}\n\n${how}.\n${machine}\n`,
  );
}

function parseLetters(only: string): readonly string[] {
  const letters = only.split(",");
  const unknown = letters.find((letter) => !PHASE_LETTERS.includes(letter));
  if (unknown === undefined) return letters;
  throw new Error(`--only knows ${PHASE_LETTERS.join(", ")}, not ${unknown}`);
}
