import { z } from "zod";

import { createWorkerFile, startDaemon, type DaemonPlace } from "../kit/daemon-file.ts";
import { spreadOf, sumOf, type Spread } from "../kit/durations.ts";
import { inTurn } from "../kit/in-turn.ts";
import { sendTimes } from "../kit/load.ts";
import { spendingOf, threadSpendingOf, type Spending } from "../kit/processes.ts";
import { taskPostRequest } from "../kit/request.ts";
import { Crew, type DrainReport } from "./crew.ts";

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

const TYPE = "leased";
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
  const { place, batches, rounds, processes, onRun } = options;
  const { file, token } = await createWorkerFile(TYPE, place);
  await using daemon = await startDaemon(file);
  const { port, pid } = daemon;
  using stack = new DisposableStack();
  const crews = Array.from({ length: processes }, () => stack.use(new Crew()));
  const job = { port, token, type: TYPE, workers: options.workers / processes, waitSeconds: 0 };
  const post = { key: file.account.key, tasks: TASKS_PER_POST, type: TYPE };
  const measure = async (batch: number): Promise<ThroughputRun> => {
    const share = batch < SMALL_BATCH ? SMALL_SHARE : 1;
    const posts = Math.ceil((options.tasks * share) / TASKS_PER_POST);
    await sendTimes(posts, { port, request: taskPostRequest(post) });
    const [spent, threadsSpent] = [spendingOf(pid), threadSpendingOf(pid)];
    const crewsSpent = crews.map((crew) => spendingOf(crew.pid));
    const reports = await Promise.all(crews.map((crew) => crew.ask("drain", { ...job, batch })));
    const crewsEnd = crewsSpent.map((each) => each());
    const run = toRun({
      batch,
      reports,
      daemon: spent(),
      threads: threadsSpent(),
      crews: crewsEnd,
    });
    const left = await countOpen(daemon.url, file.account.key);
    if (run.tasks === posts * TASKS_PER_POST && left === 0) return run;
    throw new Error(`${run.tasks} tasks were completed, and ${left} are left`);
  };
  const onResult = (_batch: number, run: ThroughputRun): void => onRun(run);
  const measured = await inTurn(batches, { rounds, uncounted: 1, onResult, measure });
  await daemon.stop();
  return measured.flatMap(({ results }) => results);
}

/** How many tasks of the account wait or run. */
async function countOpen(url: string, key: string): Promise<number> {
  const headers = { Authorization: `Bearer ${key}` };
  const answer = await fetch(`${url}/v1/appendix/user_data`, { headers });
  const { queued, running } = userData.parse(await answer.json()).tasks;
  return queued + running;
}

const userData = z.object({ tasks: z.object({ queued: z.number(), running: z.number() }) });

function toRun(measured: {
  readonly batch: number;
  readonly reports: readonly DrainReport[];
  readonly daemon: Spending;
  /** Seconds of each thread of the daemon. */
  readonly threads: readonly number[];
  readonly crews: readonly Spending[];
}): ThroughputRun {
  const { batch, reports, daemon, threads } = measured;
  const startedAt = Math.min(...reports.map((report) => report.startedAt));
  const endedAt = Math.max(...reports.map((report) => report.endedAt));
  const seconds = (endedAt - startedAt) / 1000;
  const percent = (cpuSeconds: number): number => (cpuSeconds / seconds) * 100;
  const crews = measured.crews.map(({ cpuSeconds }) => cpuSeconds);
  const tasks = sumOf(reports.map((report) => report.tasks));
  return {
    batch,
    tasks,
    tasksPerSecond: tasks / seconds,
    rssBytes: daemon.rssBytes,
    claim: spreadOf(reports.flatMap(({ claimMs }) => claimMs)),
    complete: spreadOf(reports.flatMap(({ completeMs }) => completeMs)),
    daemonPercent: percent(daemon.cpuSeconds),
    threadPercent: percent(Math.max(...threads)),
    workersPercent: percent(sumOf(crews)),
    workerPercent: percent(Math.max(...crews)),
  };
}
