import { defineCommand } from "../kit/command.ts";
import { engineOf } from "../kit/daemon-file.ts";
import { names, number, whole } from "../kit/flags.ts";
import { PHASE_LETTERS, measurePhases } from "./phases.ts";
import { budgetLines, reportTable } from "./report.ts";

export const command = defineCommand({
  about: `What postbackd takes in and delivers on this machine, beside a bare h3 handler measured in the same run.`,
  flags: {
    seconds: number("of each measurement", 1),
    rounds: whole("measurements of each phase", 7),
    connections: whole("of the load generator", 64),
    tasks: whole("of each measurement of (d)", 2500),
    only: names("phases", PHASE_LETTERS),
  },
  knowsServers: true,
  async run({ rounds, only, ...effort }, { place, note, print }) {
    const results = await measurePhases({
      place,
      effort,
      rounds,
      letters: only,
      onSlice: ({ letter }, { tasksPerSecond, p99Ms }) => {
        note(`(${letter}) ${Math.round(tasksPerSecond)} tasks/s, p99 ${p99Ms.toFixed(1)} ms`);
      },
    });
    print(`${reportTable(results)}\n\n${budgetLines(results, engineOf(place))}\n`);
    print(`${rounds} rounds; HTTP without TLS on loopback, inputs of 300 bytes.`);
  },
});
