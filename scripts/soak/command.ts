import { randomInt } from "node:crypto";

import { defineCommand } from "../kit/command.ts";
import { number, optional, span, whole } from "../kit/flags.ts";
import { soakTable } from "./report.ts";
import { runSoak } from "./soak-run.ts";

const FAULTS_SHOWN = 30;
const SEED_MAX = 2 ** 31;

export const command = defineCommand({
  about: `Everything that can go wrong with runners, at random and for a long time: no task may be lost, run under two live
leases, or end without a cause, and the daemon may not grow.`,
  flags: {
    minutes: number("half of them with kills of the daemon, half without", 30),
    seed: optional(whole("the plan of tasks and faults (drawn)")),
    rate: number("tasks a second", 40),
    "kill-after": span("seconds from a start of the daemon to its kill, drawn between", "20,60"),
  },
  async run(values, { place, note, print }) {
    const seed = values.seed ?? randomInt(1, SEED_MAX);
    note(`--seed ${seed}`);
    const report = await runSoak({
      place,
      seed,
      accounts: 3,
      workerProcesses: 3,
      seconds: values.minutes * 60,
      tasksPerSecond: values.rate,
      killAfter: values["kill-after"],
      workerKillEvery: { min: 4000, max: 15_000 },
      serviceDeathEvery: { min: 10_000, max: 40_000 },
      quietMsMax: 180_000,
      onNews: note,
    });
    print(`${soakTable(report)}\n\n--seed ${seed}`);
    const { faults } = report;
    if (faults.length > 0)
      throw new Error(`${faults.length} violations:\n${faults.slice(0, FAULTS_SHOWN).join("\n")}`);
  },
});
