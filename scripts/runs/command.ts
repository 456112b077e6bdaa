import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

import { Caller } from "../kit/caller.ts";
import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, startDaemon, type DaemonPlace } from "../kit/daemon-file.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { sumOf } from "../kit/durations.ts";
import { percent } from "../kit/figures.ts";
import { text, whole, wholes } from "../kit/flags.ts";
import { processHoldings, processUsage, type ProcessHoldings } from "../kit/processes.ts";
import { numberColumns, textTable, verdict } from "../kit/text-table.ts";

const RATIO_MIN = 0.8;
const WARM_UP_TASKS = 200;
const BARE = join(import.meta.dirname, "bare-spawn.ts");

export const command = defineCommand({
  about: `Runs command tasks through the real daemon and looks for what they leave behind: zombies, processes,
descriptors, memory. In the same run a bare loop starts the same program without postbackd; the ratio is
what the daemon makes of the machine.`,
  flags: {
    tasks: whole("tasks for each concurrency", 10_000),
    concurrency: wholes("runs at once, each number a measurement of its own", 32),
    command: text("FILE", "absolute path of the program", "/bin/true"),
  },
  async run({ tasks, concurrency: several, command: file }, { place, print }) {
    const reports: RunsReport[] = [];
    for (const concurrency of several) {
      reports.push(await measureRuns({ command: file, concurrency, tasks }, place));
    }
    const best = Math.max(...reports.map(ratioOf));
    const bound = `at least ${percent(RATIO_MIN)}: ${verdict(best >= RATIO_MIN)}`;
    print(`${reportTable(reports)}\n\n${percent(best)} of the bare rate at best; ${bound}`);
    if (reports.some(leftSomething)) process.exitCode = 1;
  },
});

/** The time that running so many command tasks took, and the figures of the same machine without postbackd. */
interface RunsReport {
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
interface DaemonState extends ProcessHoldings {
  readonly rssMb: number;
  readonly cpuSeconds: number;
  readonly hostCpuSeconds: number;
}

/**
 * Posts all tasks, each to run a program that needs no arguments, to be started at one moment; waits for the last one's
 * end.
 */
async function measureRuns(
  order: { readonly command: string; readonly concurrency: number; readonly tasks: number },
  place: DaemonPlace,
): Promise<RunsReport> {
  const { concurrency, command: program, tasks } = order;
  const bareCount = Math.max(100, Math.round(tasks / 5));
  const bare = async (stdio: "pipe" | "ignore"): Promise<number> => {
    const args = [BARE, program, String(bareCount), String(concurrency), stdio];
    return Number((await promisify(execFile)(process.execPath, args)).stdout);
  };
  const bareBefore = [await bare("pipe"), await bare("ignore")] as const;

  const more = `\n[types.runs]\ncommand = ${JSON.stringify([program])}\nconcurrency = ${concurrency}\n`;
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

// Posted first and started then, so that only the runs are measured.
async function postAndWait(
  tasks: number,
  { client, view }: { readonly client: Caller; readonly view: DatabaseView },
): Promise<void> {
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

function reportTable(reports: readonly RunsReport[]): string {
  const columns = numberColumns([
    ...["at once", "tasks/s", "bare/s", "ratio", "bare/s without pipes"],
    ...["CPU µs/task", "host CPU µs/task", "zombies", "children", "descriptors"],
    ...["RSS MB", "not completed"],
  ]);
  const rows = reports.map(({ before, after, ...report }) => [
    String(report.concurrency),
    report.tasksPerSecond.toFixed(0),
    report.barePerSecond.toFixed(0),
    percent(ratioOf(report)),
    report.bareIgnorePerSecond.toFixed(0),
    report.cpuMicrosPerTask.toFixed(0),
    report.hostCpuMicrosPerTask.toFixed(0),
    String(after.zombies),
    `${before.childPids.length} → ${after.childPids.length}`,
    `${before.descriptors} → ${after.descriptors}`,
    `${before.rssMb.toFixed(0)} → ${after.rssMb.toFixed(0)}`,
    String(report.notCompleted),
  ]);
  return textTable(columns, rows);
}

function ratioOf(rates: Pick<RunsReport, "tasksPerSecond" | "barePerSecond">): number {
  return rates.tasksPerSecond / rates.barePerSecond;
}

function leftSomething({ before, after, notCompleted }: RunsReport): boolean {
  const hasChildren = after.childPids.length > before.childPids.length;
  const hasDescriptors = after.descriptors > before.descriptors;
  return hasChildren || hasDescriptors || after.zombies > 0 || notCompleted > 0;
}
