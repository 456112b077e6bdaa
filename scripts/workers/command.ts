import { defineCommand } from "../kit/command.ts";
import { names, number, whole } from "../kit/flags.ts";
import { WAIT_SECONDS, measureIdle } from "./idle.ts";
import { budgetLine, idleLines, idleTable, throughputTable } from "./report.ts";
import { measureThroughput, type ThroughputRun } from "./throughput.ts";

const BATCHES = [1, 50];

export const command = defineCommand({
  about: "What workers (contract §7) get done, and what they cost while they wait.",
  flags: {
    only: names("of", ["throughput", "idle"]),
    rounds: whole("measurements of each batch", 5),
    tasks: whole("tasks of one measurement; batches of 1 get an eighth", 40_000),
    workers: whole("that claim and complete", 4),
    processes: whole("they are spread over", 1),
    waiting: whole("workers that wait, each on a connection of its own", 1000),
    seconds: number("they are looked at", 60),
    posts: whole("single tasks that are posted while they wait", 200),
  },
  async run({ only, waiting, seconds, posts, ...effort }, { place, note, print }) {
    if (only.includes("throughput")) {
      const { workers, processes, rounds } = effort;
      if (workers % processes > 0) throw new Error("--processes must divide --workers");
      const onRun = ({ batch, tasksPerSecond }: ThroughputRun): void =>
        note(`batch ${batch}: ${Math.round(tasksPerSecond)} tasks/s`);
      const runs = await measureThroughput({ ...effort, place, batches: BATCHES, onRun });
      const how = `workers in ${processes} process${processes > 1 ? "es" : ""}`;
      print(`${throughputTable(runs, workers)}\n\n${budgetLine(runs)}\n`);
      print(
        `${rounds} rounds, medians; ${how}; inputs of 300 bytes, every completion on disk before its answer.\n`,
      );
    }
    if (only.includes("idle")) {
      const report = await measureIdle({ place, workers: waiting, seconds, posts });
      print(`${idleTable(report)}\n\n${idleLines(report)}\n`);
      print(`Each polls with wait_seconds ${WAIT_SECONDS} and again when answered.`);
    }
  },
});
