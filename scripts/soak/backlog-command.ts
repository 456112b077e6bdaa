import { defineCommand } from "../kit/command.ts";
import { whole } from "../kit/flags.ts";
import { runBacklog } from "./backlog-run.ts";
import { backlogFaults, backlogTable } from "./crash-report.ts";

export const command = defineCommand({
  about: "What a restart after a kill costs with a long queue, in time and in memory.",
  flags: {
    tasks: whole("queued tasks, rounded up to hundreds", 100_000),
    rounds: whole("starts without the queue, and with it", 5),
  },
  async run({ tasks: wanted, rounds: restarts }, { place, print }) {
    const tasks = Math.ceil(wanted / 100) * 100;
    const report = await runBacklog({ place, tasks, restarts });
    const { seconds, rssBytesMax } = report.drain;
    const memory = `with at most ${(rssBytesMax / 1e6).toFixed(0)} MB resident`;
    print(`${backlogTable(report, tasks)}\n\nWorked off in ${seconds.toFixed(1)} s ${memory}.`);
    const faults = backlogFaults(report);
    if (faults.length > 0) throw new Error(`with ${tasks} queued tasks ${faults.join(", and ")}`);
  },
});
