import { defineCommand } from "../kit/command.ts";
import { DaemonProcess } from "../kit/daemon-process.ts";
import { figureTable, type Figure } from "../kit/figures.ts";
import { whole } from "../kit/flags.ts";
import { processUsage } from "../kit/processes.ts";

interface Start {
  readonly readyMs: number;
  readonly cpuMs: number;
}

const FIGURES: readonly Figure<Start>[] = [
  { name: "ready after ms", value: ({ readyMs }) => readyMs },
  { name: "fastest ms", value: ({ readyMs }) => readyMs, of: (all) => Math.min(...all) },
  { name: "slowest ms", value: ({ readyMs }) => readyMs, of: (all) => Math.max(...all) },
  { name: "processor ms", value: ({ cpuMs }) => cpuMs },
];

export const command = defineCommand({
  about: `How long 'postbackd dev', and 'postbackd start' on a file that there is not yet, take from their start to the ready
line, and what processor time: medians, of starts in turn.`,
  flags: { starts: whole("of each", 20) },
  async run({ starts }, { place: { program, folder }, print }) {
    const rows = (["dev", "start"] as const).map((verb) => {
      return { verb, what: [`postbackd ${verb}`], runs: new Array<Start>() };
    });
    for (let i = 0; i < starts; i++) {
      for (const { verb, runs } of rows) {
        const file = verb === "dev" ? [] : ["--db", `${i}.db`];
        const flags = ["--port", "0", ...file];
        await using daemon = await DaemonProcess.start({ program, folder, verb, flags });
        const { cpuSeconds } = processUsage(daemon.pid);
        runs.push({ readyMs: daemon.readyMs, cpuMs: cpuSeconds * 1000 });
        await daemon.stop();
      }
    }
    print(figureTable(FIGURES, rows));
  },
});
