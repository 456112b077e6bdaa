import { defineCommand, optional, whole } from "../kit/command.ts";
import { createDaemonFile, DaemonProcess, startDaemon } from "../kit/daemon.ts";
import { figureTable, inTurn, numberText, type Figure } from "../kit/measure.ts";
import { processUsage } from "../kit/processes.ts";
import { fillFile, NO_TASK_LIMIT } from "./fill.ts";

interface Start {
  readonly readyMs: number;
  readonly cpuMs: number;
  readonly rssBytes: number;
}

const FIGURES: readonly Figure<Start>[] = [
  { name: "ready after ms", value: ({ readyMs }) => readyMs },
  { name: "fastest ms", value: ({ readyMs }) => readyMs, of: (all) => Math.min(...all) },
  { name: "slowest ms", value: ({ readyMs }) => readyMs, of: (all) => Math.max(...all) },
  { name: "processor ms", value: ({ cpuMs }) => cpuMs },
  { name: "RSS MB", value: ({ rssBytes }) => rssBytes / 1e6 },
];

const FLAGS = ["--port", "0"];

export const starts = defineCommand({
  about: `How long 'postbackd dev', and 'postbackd start' on a new file, take from their start to the ready line, and their
processor time: medians, of starts in turn. With --tasks also 'postbackd start' on a full file.`,
  flags: {
    starts: whole("of each", 20),
    tasks: optional(whole("in the full file, a tenth with a retry to come (no such row)")),
  },
  async run({ starts: rounds, tasks }, { place, print }) {
    const { program, folder } = place;
    let made = 0;
    const own = { program, folder };
    const legs = [
      {
        what: ["postbackd dev"],
        start: () => DaemonProcess.start({ ...own, verb: "dev", flags: FLAGS }),
      },
      {
        what: ["postbackd start"],
        start: () => DaemonProcess.start({ ...own, flags: [...FLAGS, "--db", `${made++}.db`] }),
      },
    ];
    if (tasks !== null) {
      const full = await createDaemonFile(place, { more: NO_TASK_LIMIT });
      const retries = Math.floor(tasks / 10);
      await fillFile(full, { tasks, retries, accounts: 1000, hosts: 10_000 });
      const what = [`postbackd start, ${numberText(tasks)} tasks`];
      legs.push({ what, start: () => startDaemon(full) });
    }
    const measured = await inTurn(legs, {
      rounds,
      uncounted: 0,
      async measure({ start }): Promise<Start> {
        await using daemon = await start();
        const { cpuSeconds, rssBytes } = processUsage(daemon.pid);
        await daemon.stop();
        return { readyMs: daemon.readyMs, cpuMs: cpuSeconds * 1000, rssBytes };
      },
    });
    print(
      figureTable(
        FIGURES,
        measured.map(({ leg, results }) => ({ ...leg, runs: results })),
      ),
    );
  },
});
