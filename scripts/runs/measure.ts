import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

import { Caller } from "../kit/caller.ts";
import { createDaemonFile, startDaemon, type DaemonPlace } from "../kit/daemon-file.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { sumOf } from "../kit/durations.ts";
import { processHoldings, processUsage, type ProcessHoldings } from "../kit/processes.ts";

/** The order of a measurement. */
export interface RunsOrder {
  readonly place: DaemonPlace;
  readonly tasks: number;
  /** Runs at once. */
  readonly concurrency: number;
  /** The absolute path of the program that each task runs; it needs no arguments. */
  readonly command: string;
}

/** The time that running so many command tasks took, and the figures of the same machine without postbackd. */
export interface RunsReport {
  readonly concurrency: number;
  readonly tasksPerSecond: number;
  /** The bare loop's rates, half of its processes before the daemon's tasks and half after. */
  readonly barePerSecond: number;
  /** The same without any pipe. */
  readonly bareIgnorePerSecond: number;
  readonly before: DaemonState;
  readonly after: DaemonState;
  /** Of the daemon itself. */
  readonly cpuMicrosPerTask: number;
  /** Of the process in which it runs commands, without the commands themselves. */
  readonly hostCpuMicrosPerTask: number;
  readonly notCompleted: number;
}

/** The resources of the daemon at one moment. */
export interface DaemonState extends ProcessHoldings {
  readonly rssMb: number;
  readonly cpuSeconds: number;
  readonly hostCpuSeconds: number;
}

const WARM_UP_TASKS = 200;

/** Posts all tasks, to be started at one moment, and waits for the end of the last. */
export async function measureRuns(order: RunsOrder): Promise<RunsReport> {
  const { concurrency, command, tasks, place } = order;
  const bareCount = Math.max(100, Math.round(tasks / 5));
  const bare = async (stdio: "pipe" | "ignore"): Promise<number> =>
    bareRate([command, String(bareCount), String(concurrency), stdio]);
  const bareBefore = [await bare("pipe"), await bare("ignore")] as const;

  const more = `\n[types.runs]\ncommand = ${JSON.stringify([command])}\nconcurrency = ${concurrency}\n`;
  const file = await createDaemonFile(place, { more });
  await using daemon = await startDaemon(file);
  const client = Caller.withKey(daemon.url, file.account.key);
  using view = new DatabaseView(file.database);
  await postAndWait(WARM_UP_TASKS, { client, view });
  const before = stateOf(daemon.pid);
  const warmUpSeq = view.number("SELECT max(seq) FROM tasks");
  await postAndWait(tasks, { client, view });
  const after = stateOf(daemon.pid);
  const microsPerTask = (key: "cpuSeconds" | "hostCpuSeconds"): number =>
    ((after[key] - before[key]) * 1e6) / tasks;

  const those = `FROM tasks WHERE seq > ${warmUpSeq}`;
  const seconds = view.number(`SELECT max(completed_at) - min(started_at) ${those}`) / 1000;
  const notCompleted = view.number(`SELECT count(*) ${those} AND state <> 'completed'`);
  await daemon.stop();
  const bareAfter = [await bare("pipe"), await bare("ignore")] as const;
  return {
    concurrency,
    before,
    after,
    notCompleted,
    cpuMicrosPerTask: microsPerTask("cpuSeconds"),
    hostCpuMicrosPerTask: microsPerTask("hostCpuSeconds"),
    tasksPerSecond: tasks / seconds,
    barePerSecond: (bareBefore[0] + bareAfter[0]) / 2,
    bareIgnorePerSecond: (bareBefore[1] + bareAfter[1]) / 2,
  };
}

interface PostParts {
  readonly client: Caller;
  readonly view: DatabaseView;
}

// Posted first and started then, so that only the runs are measured.
async function postAndWait(tasks: number, { client, view }: PostParts): Promise<void> {
  const startAt = new Date(Date.now() + 2000 + tasks / 2).toISOString();
  await client.postTasks({ type: "runs", start_at: startAt }, tasks);
  if (Date.now() > Date.parse(startAt)) throw new Error("posting took longer than was planned");
  await sleep(Date.parse(startAt) - Date.now());
  await view.quiet({ msMax: 60_000 + tasks * 100 });
}

function stateOf(pid: number): DaemonState {
  const holdings = processHoldings(pid);
  const { rssBytes, cpuSeconds } = processUsage(pid);
  const children = holdings.childPids.map((child) => processUsage(child).cpuSeconds);
  return { ...holdings, rssMb: rssBytes / 1024 ** 2, cpuSeconds, hostCpuSeconds: sumOf(children) };
}

const BARE = join(import.meta.dirname, "bare-spawn.ts");

async function bareRate(args: readonly string[]): Promise<number> {
  const { stdout } = await promisify(execFile)(process.execPath, [BARE, ...args]);
  return Number(stdout);
}
