import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";

import { defineCommand, whole } from "../kit/command.ts";
import { markdownTable } from "../kit/measure.ts";
import { cleanAtExit } from "../kit/scratch.ts";
import { openDaemon, PeerWorld } from "./peers/run.ts";

/** The work of a thread. `core`: it could run and has no core; `disk`: it waits for the disk. */
type ThreadState = "runs" | "core" | "disk" | "sleeps";

const NAMES: Readonly<Record<ThreadState, string>> = {
  runs: "runs",
  core: "waits for a core",
  disk: "waits for the disk",
  sleeps: "sleeps",
};
const STATES = ["runs", "core", "disk", "sleeps"] as const;
const SHOWN = 6;

export const timeline = defineCommand({
  about: `Which thread waits for which on the whole way of tasks: the states of the main thread and of the writer's thread at the
same time, from a trace of Linux's scheduler. Tasks are posted as by "peers". It needs root.`,
  flags: {
    tasks: whole("tasks that are traced", 20_000),
    rounds: whole("times that as many tasks go before them, untraced", 3),
    "at-a-time": whole("webhooks to the one host at a time", 32),
  },
  async run({ tasks, rounds, "at-a-time": atATime }, { place, print, note }) {
    using trace = new SchedulerTrace();
    await using world = await PeerWorld.open(place, tasks);
    const { pid, measure } = await openDaemon(world, { place, atATime });
    for (let round = 0; round < rounds; round++) await measure();
    trace.start();
    const { tasksPerSecond } = await measure();
    const events = parseTrace(trace.stop());
    const writer = writerOf(pid, timelineOf(events, []));
    const found = timelineOf(events, [pid, writer]);
    note(`${events.length} events in ${found.seconds.toFixed(1)} s`);
    print(`${Math.round(tasksPerSecond)} tasks/s. Parts of the time, in percent:\n`);
    const rows = STATES.map((main) => {
      const parts = STATES.map((state) => found.together.get(`${main}/${state}`) ?? 0);
      return [NAMES[main], ...parts.map(percent)];
    });
    print(markdownTable(["main thread", ...STATES.map((state) => `writer ${NAMES[state]}`)], rows));
    const busy = [...Array(availableParallelism() + 1).keys()].map((count) => {
      return `${count}: ${percent(found.coresBusy.get(count) ?? 0)}`;
    });
    print(`\nCores that run something: ${busy.join(", ")}.`);
    const names = new Map([
      [pid, "main thread"],
      [writer, "writer"],
    ]);
    const most = [...found.running].toSorted(([, a], [, b]) => b - a).slice(0, SHOWN);
    const shown = most.map(([id, part]) => `${names.get(id) ?? nameOf(id, id)} ${percent(part)}`);
    print(`Threads that run: ${shown.join(", ")}.`);
  },
});

/** The worker thread of that process with the longest running time. */
function writerOf(pid: number, { running }: Timeline): number {
  const workers = readdirSync(`/proc/${pid}/task`)
    .map(Number)
    .filter((thread) => nameOf(pid, thread) === "WorkerThread");
  const [writer] = workers.toSorted((a, b) => (running.get(b) ?? 0) - (running.get(a) ?? 0));
  if (writer === undefined) throw new Error(`process ${pid} has no writer thread`);
  return writer;
}

/** A thread may have ended. */
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

const INSTANCES = "/sys/kernel/tracing/instances";
// For each core: some ten seconds of a busy machine.
const BUFFER_KB = 32_768;

/** A trace of Linux's scheduler, separate from other traces. It needs root. */
class SchedulerTrace implements Disposable {
  readonly #folder = join(INSTANCES, `postbackd-${process.pid}`);
  readonly #remove: () => void;

  constructor() {
    if (process.getuid?.() !== 0 || !existsSync(INSTANCES))
      throw new Error(`a trace of the scheduler needs Linux, root, and tracefs at ${INSTANCES}`);
    mkdirSync(this.#folder);
    this.#remove = cleanAtExit(() => rmdirSync(this.#folder));
    this.#set("tracing_on", 0);
    this.#set("buffer_size_kb", BUFFER_KB);
    this.#set("trace_clock", "mono");
    for (const event of ["sched_switch", "sched_wakeup"])
      this.#set(`events/sched/${event}/enable`, 1);
  }

  start(): void {
    this.#set("tracing_on", 1);
  }

  /** Ends the trace and returns it, one event per line. */
  stop(): string {
    this.#set("tracing_on", 0);
    return readFileSync(join(this.#folder, "trace"), "utf8");
  }

  [Symbol.dispose](): void {
    this.#remove();
  }

  #set(file: string, value: string | number): void {
    writeFileSync(join(this.#folder, file), String(value));
  }
}

type SchedulerEvent = {
  readonly at: number;
  readonly core: number;
  /** The thread that ran; 0 if the core was idle. */
  readonly by: number;
} & (
  | { readonly kind: "switch"; readonly next: number; readonly left: ThreadState }
  | { readonly kind: "wakeup"; readonly thread: number; readonly target: number }
);

const EVENT = /^.+-(\d+)\s+\[(\d+)\]\s+\S+\s+(\d+\.\d+): sched_(switch|wakeup): (.*)$/;
const SWITCH = / prev_state=(\S+) ==> .* next_pid=(\d+) /;
const WAKEUP = / pid=(\d+) .*target_cpu=(\d+)/;

function parseTrace(text: string): readonly SchedulerEvent[] {
  return text.split("\n").flatMap((line): SchedulerEvent[] => {
    const [, by = "", core = "", at = "", kind = "", rest = ""] = EVENT.exec(line) ?? [];
    const event = { at: Number(at), core: Number(core), by: Number(by) };
    if (kind === "switch") {
      const [, letters = "", next = ""] = SWITCH.exec(rest) ?? [];
      const left = { R: "core", D: "disk" }[letters.charAt(0)] ?? "sleeps";
      return [{ ...event, kind, next: Number(next), left: left as ThreadState }];
    }
    if (kind !== "wakeup") return [];
    const [, thread = "", target = ""] = WAKEUP.exec(rest) ?? [];
    return [{ ...event, kind, thread: Number(thread), target: Number(target) }];
  });
}

/** Parts of the time. */
interface Timeline {
  readonly seconds: number;
  /** By the number of cores that ran something. */
  readonly coresBusy: ReadonlyMap<number, number>;
  /** How long each thread ran. */
  readonly running: ReadonlyMap<number, number>;
  /** By the states of the given threads, as `runs/sleeps`. */
  readonly together: ReadonlyMap<string, number>;
}

/**
 * Adds up what the threads did. Linux 6.18 has no event for the thread that an idle core goes to: so a thread that is woken
 * on an idle core is assumed to run immediately, and a thread that causes an event to run there.
 */
function timelineOf(events: readonly SchedulerEvent[], threads: readonly number[]): Timeline {
  const coresBusy = new Map<number, number>();
  const running = new Map<number, number>();
  const together = new Map<string, number>();
  const states = new Map<number, ThreadState>();
  const runners = new Array<number>(availableParallelism()).fill(0);
  const run = (core: number, thread: number): void => {
    runners[core] = thread;
    if (thread !== 0) states.set(thread, "runs");
  };
  const first = events[0]?.at ?? 0;
  let last = first;
  for (const event of events) {
    const busy = runners.filter((thread) => thread !== 0);
    const passed = event.at - last;
    addTo(coresBusy, busy.length, passed);
    addTo(together, threads.map((thread) => states.get(thread) ?? "sleeps").join("/"), passed);
    for (const thread of busy) addTo(running, thread, passed);
    last = event.at;
    if (event.by !== 0 && runners[event.core] !== event.by) run(event.core, event.by);
    if (event.kind === "switch") {
      if (event.by !== 0) states.set(event.by, event.left);
      run(event.core, event.next);
    } else if (states.get(event.thread) !== "runs") {
      states.set(event.thread, "core");
      if (runners[event.target] === 0) run(event.target, event.thread);
    }
  }
  const seconds = last - first;
  const parts = <Key>(times: ReadonlyMap<Key, number>): ReadonlyMap<Key, number> =>
    new Map([...times].map(([key, time]) => [key, time / seconds]));
  return {
    seconds,
    coresBusy: parts(coresBusy),
    running: parts(running),
    together: parts(together),
  };
}

function addTo<Key>(sums: Map<Key, number>, key: Key, more: number): void {
  sums.set(key, (sums.get(key) ?? 0) + more);
}
