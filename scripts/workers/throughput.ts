import { startDaemon, type DaemonPlace } from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { spreadOf, type Spread } from "../kit/durations.ts";
import { inTurn } from "../kit/in-turn.ts";
import { sendTimes } from "../kit/load.ts";
import { processUsage, threadCpuSeconds } from "../kit/processes.ts";
import { taskPostRequest } from "../kit/request.ts";
import { Drain, type DrainReport } from "./drain.ts";
import { LEASED, createWorkerFile, type WorkerFile } from "./worker-file.ts";

/** How many tasks workers claim and complete, and how. */
export interface ThroughputOptions {
  readonly place: DaemonPlace;
  /** Tasks of one claim and of one completion; each is a leg of its own. */
  readonly batches: readonly number[];
  /** Tasks of one measurement, at most; smaller batches get fewer. */
  readonly tasks: number;
  readonly workers: number;
  /** Over which the workers are spread evenly. */
  readonly processes: number;
  readonly rounds: number;
  readonly onRun: (run: ThroughputRun) => void;
}

/** One measurement. Percentages are of one core. */
export interface ThroughputRun {
  readonly batch: number;
  readonly tasks: number;
  readonly tasksPerSecond: number;
  /** Round trips as a worker sees them. */
  readonly claim: Spread;
  readonly complete: Spread;
  readonly daemonPercent: number;
  /** The daemon's busiest thread. */
  readonly threadPercent: number;
  readonly workersPercent: number;
  /** The busiest process of workers. */
  readonly workerPercent: number;
  readonly rssBytes: number;
}

const TASKS_PER_POST = 100;
// One by one takes about as long as the full number by 50.
const SMALL_BATCH = 10;
const SMALL_SHARE = 0.125;

/**
 * Fills the queue, then lets workers claim and complete until it is empty; every completion is durable before its
 * answer. Rejects when a task is left.
 */
export async function measureThroughput(
  options: ThroughputOptions,
): Promise<readonly ThroughputRun[]> {
  const file = await createWorkerFile(options.place);
  await using daemon = await startDaemon(file);
  using view = new DatabaseView(file.database);
  using stack = new DisposableStack();
  const drains = Array.from({ length: options.processes }, () => stack.use(new Drain()));
  const measured = await inTurn(options.batches, {
    rounds: options.rounds,
    uncounted: 1,
    onResult: (_batch, run: ThroughputRun) => options.onRun(run),
    measure: (batch) => measureOnce(batch, { options, file, daemon, view, drains }),
  });
  await daemon.stop();
  return measured.flatMap(({ results }) => results);
}

interface Setup {
  readonly options: ThroughputOptions;
  readonly file: WorkerFile;
  readonly daemon: DaemonProcess;
  readonly view: DatabaseView;
  readonly drains: readonly Drain[];
}

async function measureOnce(batch: number, setup: Setup): Promise<ThroughputRun> {
  const { options, file, daemon, view, drains } = setup;
  const share = batch < SMALL_BATCH ? SMALL_SHARE : 1;
  const tasks = Math.ceil((options.tasks * share) / TASKS_PER_POST) * TASKS_PER_POST;
  const post = { key: file.account.key, tasks: TASKS_PER_POST, type: LEASED };
  const request = taskPostRequest(post);
  await sendTimes(tasks / TASKS_PER_POST, { port: daemon.port, request });
  const before = cpuOf(setup);
  const workers = options.workers / options.processes;
  const job = { port: daemon.port, token: file.token, type: LEASED, workers, batch };
  const reports = await Promise.all(drains.map((drain) => drain.ask("run", job)));
  const after = cpuOf(setup);
  const done = reports.reduce((sum, report) => sum + report.tasks, 0);
  const left = view.number("SELECT count(*) FROM tasks WHERE state <> 'completed'");
  if (done !== tasks || left > 0)
    throw new Error(`${done} of ${tasks} tasks were completed, and ${left} are left`);
  return toRun({ batch, tasks, reports, before, after });
}

interface Cpu {
  readonly daemonSeconds: number;
  readonly rssBytes: number;
  readonly threads: ReadonlyMap<string, number>;
  readonly workersSeconds: readonly number[];
}

function cpuOf({ daemon, drains }: Setup): Cpu {
  const { cpuSeconds: daemonSeconds, rssBytes } = processUsage(daemon.pid);
  const workersSeconds = drains.map(({ pid }) => processUsage(pid).cpuSeconds);
  return { daemonSeconds, rssBytes, threads: threadCpuSeconds(daemon.pid), workersSeconds };
}

function toRun(measured: {
  readonly batch: number;
  readonly tasks: number;
  readonly reports: readonly DrainReport[];
  readonly before: Cpu;
  readonly after: Cpu;
}): ThroughputRun {
  const { batch, tasks, reports, before, after } = measured;
  const startedAt = Math.min(...reports.map((report) => report.startedAt));
  const endedAt = Math.max(...reports.map((report) => report.endedAt));
  const seconds = (endedAt - startedAt) / 1000;
  const percent = (cpuSeconds: number): number => (cpuSeconds / seconds) * 100;
  const threads = [...after.threads].map(([id, spent]) => spent - (before.threads.get(id) ?? 0));
  const workers = after.workersSeconds.map((spent, i) => spent - (before.workersSeconds[i] ?? 0));
  return {
    batch,
    tasks,
    tasksPerSecond: tasks / seconds,
    rssBytes: after.rssBytes,
    claim: spreadOf(reports.flatMap(({ claimMs }) => claimMs)),
    complete: spreadOf(reports.flatMap(({ completeMs }) => completeMs)),
    daemonPercent: percent(after.daemonSeconds - before.daemonSeconds),
    threadPercent: percent(Math.max(...threads)),
    workersPercent: percent(workers.reduce((sum, spent) => sum + spent, 0)),
    workerPercent: percent(Math.max(...workers)),
  };
}
