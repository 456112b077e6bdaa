import { defineCommand } from "../kit/command.ts";
import { whole } from "../kit/flags.ts";
import { crashTable } from "./crash-report.ts";
import { runCrashes } from "./crash-run.ts";

export const command = defineCommand({
  about:
    "Kills postbackd with SIGKILL in the middle of its work and proves that nothing it acknowledged was lost.",
  flags: { rounds: whole("kills", 20) },
  async run({ rounds }, { place, note, print }) {
    const report = await runCrashes({
      place,
      rounds,
      connections: 32,
      tasksBeforeKill: { min: 50, max: 4000 },
      stallMsMax: 60_000,
      onRound: ({ readyMs, acknowledged, missing }) => {
        const killed = `killed after ${acknowledged} acknowledged tasks, ${missing} webhooks missing`;
        note(`ready in ${readyMs.toFixed(0)} ms, ${killed}`);
      },
    });
    print(crashTable(report));
  },
});
