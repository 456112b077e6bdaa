import { fillFile, ROOM } from "../flat/filling.ts";
import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, startDaemon } from "../kit/daemon-file.ts";
import { DaemonProcess } from "../kit/daemon-process.ts";
import { figureTable, numberText, type Figure } from "../kit/figures.ts";
import { optional, whole } from "../kit/flags.ts";
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

interface Row {
  readonly what: readonly [string];
  readonly runs: Start[];
  /** Starts it for the `i`th time. */
  start(i: number): Promise<DaemonProcess>;
}

const FLAGS = ["--port", "0"];

export const command = defineCommand({
  about: `How long 'postbackd dev', and 'postbackd start' on a file that there is not yet, take from their start to the ready
line, and what processor time: medians, of starts in turn. With --tasks also 'postbackd start' on a full file.`,
  flags: {
    starts: whole("of each", 20),
    tasks: optional(
      whole(
        "in the full file, a tenth of them with a retry to come, of 1,000 accounts (no such row)",
      ),
    ),
  },
  async run({ starts, tasks }, { place, print }) {
    const { program, folder } = place;
    const rows: Row[] = [
      {
        what: ["postbackd dev"],
        runs: [],
        start: () => DaemonProcess.start({ program, folder, verb: "dev", flags: FLAGS }),
      },
      {
        what: ["postbackd start"],
        runs: [],
        start: (i) =>
          DaemonProcess.start({ program, folder, flags: [...FLAGS, "--db", `${i}.db`] }),
      },
    ];
    if (tasks !== null) {
      const full = await createDaemonFile(place, { more: ROOM });
      await fillFile(full, {
        tasks,
        retries: Math.floor(tasks / 10),
        accounts: 1000,
        hosts: 10_000,
      });
      rows.push({
        what: [`postbackd start, ${numberText(tasks)} tasks`],
        runs: [],
        start: () => startDaemon(full),
      });
    }
    for (let i = 0; i < starts; i++) {
      for (const { start, runs } of rows) {
        await using daemon = await start(i);
        const { cpuSeconds } = processUsage(daemon.pid);
        runs.push({ readyMs: daemon.readyMs, cpuMs: cpuSeconds * 1000 });
        await daemon.stop();
      }
    }
    print(figureTable(FIGURES, rows));
  },
});
