import { defineCommand } from "../kit/command.ts";
import { engineOf } from "../kit/daemon-file.ts";
import { names, number, whole } from "../kit/flags.ts";
import { WAIT_SECONDS, measureIdle } from "./idle.ts";
import { measureOtherNode } from "./other-node.ts";
import { budgetLine, idleLines, idleTable, otherNodeReport, throughputTable } from "./report.ts";
import { measureThroughput, type ThroughputRun } from "./throughput.ts";

const BATCHES = [1, 50];

export const command = defineCommand({
  about: `What workers get done, and what they cost while they wait; with --postgres also how long a task takes from
one of two nodes to a worker that waits at the other.`,
  flags: {
    only: names("of", ["throughput", "idle", "nodes"]),
    rounds: whole("measurements of each batch", 5),
    tasks: whole("tasks of one measurement; batches of 1 get an eighth", 40_000),
    workers: whole("that claim and complete", 4),
    processes: whole("they are spread over", 1),
    waiting: whole("workers that wait, each on a connection of its own", 1000),
    seconds: number("they are looked at", 60),
    posts: whole("single tasks that are posted while they wait", 200),
  },
  knowsServers: true,
  async run({ only, waiting, seconds, posts, ...effort }, { place, note, print }) {
    if (only.includes("throughput")) {
      const { workers, processes, rounds } = effort;
      if (workers % processes > 0) throw new Error("--processes must divide --workers");
      const onRun = ({ batch, tasksPerSecond }: ThroughputRun): void =>
        note(`batch ${batch}: ${Math.round(tasksPerSecond)} tasks/s`);
      const runs = await measureThroughput({ ...effort, place, batches: BATCHES, onRun });
      const how = `workers in ${processes} process${processes > 1 ? "es" : ""}`;
      print(`${throughputTable(runs, workers)}\n\n${budgetLine(runs, engineOf(place))}\n`);
      print(
        `${rounds} rounds, medians; ${how}; inputs of 300 bytes, every completion on disk before its answer.\n`,
      );
    }
    if (only.includes("idle")) {
      const report = await measureIdle({ place, workers: waiting, seconds, posts });
      print(`${idleTable(report)}\n\n${idleLines(report)}\n`);
      print(`Each polls with wait_seconds ${WAIT_SECONDS} and again when answered.`);
    }
    if (only.includes("nodes") && place.newDatabase !== undefined) {
      for (const how of ["notified", "polled"] as const) {
        const url = await place.newDatabase();
        print(`${otherNodeReport(await measureOtherNode({ place, url, posts, how }), how)}\n`);
      }
    }
  },
});
