import { readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

import { defineCommand } from "../kit/command.ts";
import { whole } from "../kit/flags.ts";
import { numberColumns, textTable } from "../kit/text-table.ts";
import { openDaemon } from "../peers/own-row.ts";
import { World } from "../peers/world.ts";
import { SchedulerTrace } from "./scheduler-trace.ts";
import {
  parseTrace,
  THREAD_STATES,
  timelineOf,
  togetherKey,
  type ThreadState,
  type Timeline,
} from "./thread-states.ts";

const NAMES: Readonly<Record<ThreadState, string>> = {
  runs: "runs",
  core: "waits for a core",
  disk: "waits for the disk",
  sleeps: "sleeps",
};
const MOST = 6;

export const command = defineCommand({
  about: `Who waits for whom on the whole way of tasks: what the main thread and the writer's thread do at the same time, by what
Linux tells of its scheduler. Tasks are posted as by "peers". It takes root.`,
  flags: {
    tasks: whole("tasks that are watched", 20_000),
    rounds: whole("times that as many go before them, unwatched", 3),
    "at-a-time": whole("webhooks to the one host at a time", 32),
  },
  async run({ tasks, rounds, "at-a-time": atATime }, { place, print, note }) {
    using trace = new SchedulerTrace();
    const effort = { tasks, seconds: 0 };
    await using world = await World.open({ place, effort });
    const { pid, measure } = await openDaemon(world, { place, atATime });
    for (let round = 0; round < rounds; round++) await measure();
    trace.start();
    const { tasksPerSecond } = await measure();
    const events = parseTrace(trace.stop());
    const all = timelineOf(events, { threads: [], cores: availableParallelism() });
    const writer = writerOf(pid, all);
    const found = timelineOf(events, { threads: [pid, writer], cores: availableParallelism() });
    note(`${events.length} events in ${found.seconds.toFixed(1)} s`);
    print(`${Math.round(tasksPerSecond)} tasks/s. Parts of the time, in percent:\n`);
    print(togetherTable(found));
    const busy = found.coresBusy.map((part, count) => `${count}: ${percent(part)}`);
    print(`\nCores that run something: ${busy.join(", ")}.`);
    const names = new Map([
      [pid, "main thread"],
      [writer, "writer"],
    ] as const);
    print(`Who runs: ${longest(found, names)}.`);
  },
});

/** Of the worker threads of that process the one that ran the longest. */
function writerOf(pid: number, { running }: Timeline): number {
  const workers = readdirSync(`/proc/${pid}/task`)
    .map(Number)
    .filter((thread) => nameOf(pid, thread) === "WorkerThread");
  const [writer] = workers.toSorted((a, b) => (running.get(b) ?? 0) - (running.get(a) ?? 0));
  if (writer === undefined) throw new Error(`process ${pid} has no thread that writes`);
  return writer;
}

function togetherTable({ together }: Timeline): string {
  const columns = [
    { name: "main thread" },
    ...numberColumns(THREAD_STATES.map((state) => `writer ${NAMES[state]}`)),
  ];
  const rows = THREAD_STATES.map((main) => {
    const parts = THREAD_STATES.map((writer) => together.get(togetherKey([main, writer])) ?? 0);
    return [NAMES[main], ...parts.map(percent)];
  });
  return textTable(columns, rows);
}

function longest({ running }: Timeline, names: ReadonlyMap<number, string>): string {
  return [...running]
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, MOST)
    .map(([thread, part]) => `${names.get(thread) ?? nameOf(thread, thread)} ${percent(part)}`)
    .join(", ");
}

/** As Linux has it; a thread may have ended by now. */
function nameOf(pid: number, thread: number): string {
  try {
    return readFileSync(`/proc/${pid}/task/${thread}/comm`, "utf8").trim();
  } catch {
    return "?";
  }
}

function percent(part: number): string {
  return (100 * part).toFixed(1);
}
