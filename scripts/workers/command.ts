import { defineCommand, type Bench } from "../kit/command.ts";
import { names, number, whole, type Values } from "../kit/flags.ts";
import { WAIT_SECONDS, measureIdle } from "./idle.ts";
import { budgetLine, idleLines, idleTable, throughputTable } from "./report.ts";
import { measureThroughput } from "./throughput.ts";

const BATCHES = [1, 50];

const flags = {
  only: names("of", ["throughput", "idle"]),
  rounds: whole("measurements of each batch", 5),
  tasks: whole("tasks of one measurement; batches of 1 get an eighth", 40_000),
  workers: whole("that claim and complete", 4),
  processes: whole("they are spread over", 1),
  waiting: whole("workers that wait, each on a connection of its own", 1000),
  seconds: number("they are looked at", 60),
  posts: whole("single tasks that are posted while they wait", 200),
};

export const command = defineCommand({
  about: "What workers (contract §7) get done, and what they cost while they wait.",
  flags,
  async run(values, bench) {
    if (values.only.includes("throughput")) await printThroughput(values, bench);
    if (values.only.includes("idle")) await printIdle(values, bench);
  },
});

async function printThroughput(
  { workers, processes, tasks, rounds }: Values<typeof flags>,
  { place, note, print }: Bench,
): Promise<void> {
  if (workers % processes > 0) throw new Error("--processes must divide --workers");
  const runs = await measureThroughput({
    place,
    batches: BATCHES,
    workers,
    processes,
    tasks,
    rounds,
    onRun: ({ batch, tasksPerSecond }) => {
      note(`batch ${batch}: ${Math.round(tasksPerSecond)} tasks/s`);
    },
  });
  const how = `${rounds} rounds, medians; workers in ${processes} process${processes > 1 ? "es" : ""}`;
  print(`${throughputTable(runs, workers)}\n\n${budgetLine(runs)}\n`);
  print(`${how}; inputs of 300 bytes, every completion on disk before its answer.\n`);
}

async function printIdle(
  { waiting, seconds, posts }: Values<typeof flags>,
  { place, print }: Bench,
): Promise<void> {
  const report = await measureIdle({ place, workers: waiting, seconds, posts });
  print(`${idleTable(report)}\n\n${idleLines(report)}\n`);
  print(`Each polls with wait_seconds ${WAIT_SECONDS} and again when answered.`);
}
