import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { Caller } from "../kit/client.ts";
import { Cluster } from "../kit/cluster.ts";
import { defineCommand, names, number, whole, type Bench } from "../kit/command.ts";
import { createWorkerFile, startDaemon, type DaemonPlace } from "../kit/daemon.ts";
import { taskPostRequest } from "../kit/http.ts";
import { sendTimes } from "../kit/load.ts";
import {
  factTable,
  figureOf,
  figureTable,
  inTurn,
  megabytes,
  numberText,
  spreadOf,
  verdict,
  type Figure,
  type Spread,
} from "../kit/measure.ts";
import { spendingOf, threadSpendingOf } from "../kit/processes.ts";
import { Crew } from "./crew.ts";

const TYPE = "leased";
const TASKS_PER_POST = 100;
const BATCHES = [1, 50];
// One by one takes about as long as the full number by 50.
const SHARES: Readonly<Record<number, number>> = { 1: 0.125 };
const WAIT_SECONDS = 30;
const SETTLE_MS = 5000;
// Until the memory of a thousand new connections is constant.
const OPENED_MS = 2000;
const SAMPLE_MS = 1000;

const RATE_MIN = { batch: 50, file: 25_000, server: 8000 };
/** From a post at one node to a worker at another, p50. */
const HAND_MS_MAX = { notified: 15, polled: 1100 };
const IDLE_CPU_PERCENT_MAX = 3;
const IDLE_RSS_BYTES_MAX = 60e6;
/** A busier core has no time left: the rest is the kernel's and the measuring's. */
const BUSY_PERCENT = 85;

export const workers = defineCommand({
  about: `What workers get done, and what they cost while they wait; with --postgres also how long a task takes from one of two
nodes to a worker that waits at the other.`,
  flags: {
    only: names("of", ["throughput", "idle", "nodes"]),
    rounds: whole("measurements of each batch", 5),
    tasks: whole("tasks of one measurement; batches of 1 get an eighth", 40_000),
    workers: whole("that claim and complete", 4),
    waiting: whole("workers that wait, each on a connection of its own", 1000),
    seconds: number("that they wait", 60),
    posts: whole("single tasks that are posted while they wait", 200),
  },
  knowsServers: true,
  async run({ only, ...effort }, bench) {
    if (only.includes("throughput")) await measureThroughput(effort, bench);
    if (only.includes("idle")) await measureIdle(effort, bench);
    const { newDatabase } = bench.place;
    if (!only.includes("nodes") || newDatabase === undefined) return;
    for (const how of ["notified", "polled"] as const)
      bench.print(
        `${await measureOtherNode(bench.place, { url: await newDatabase(), how, ...effort })}\n`,
      );
  },
});

/** One measurement. Percentages are of one core. */
interface Run {
  readonly tasksPerSecond: number;
  /** Round trips as a worker sees them. */
  readonly claim: Spread;
  readonly complete: Spread;
  readonly daemonPercent: number;
  /** The daemon's busiest thread. */
  readonly threadPercent: number;
  readonly workersPercent: number;
  readonly rssBytes: number;
}

const FIGURES: readonly Figure<Run>[] = [
  { name: "tasks/s", value: (run) => run.tasksPerSecond },
  { name: "claim p50 ms", value: ({ claim }) => claim.p50Ms, digits: 1 },
  { name: "p99 ms", value: ({ claim }) => claim.p99Ms, digits: 1 },
  { name: "complete p50 ms", value: ({ complete }) => complete.p50Ms, digits: 1 },
  { name: "p99 ms", value: ({ complete }) => complete.p99Ms, digits: 1 },
  { name: "daemon CPU %", value: (run) => run.daemonPercent },
  { name: "its busiest thread %", value: (run) => run.threadPercent },
  { name: "workers CPU %", value: (run) => run.workersPercent },
  { name: "daemon RSS MB", value: (run) => run.rssBytes / 1e6 },
];

/**
 * Fills the queue, then lets workers claim and complete until it is empty; every completion is durable before its
 * response. Rejects if a task is left.
 */
async function measureThroughput(
  effort: { rounds: number; tasks: number; workers: number },
  { place, note, print }: Bench,
): Promise<void> {
  const { rounds, workers } = effort;
  const { file, token } = await createWorkerFile(TYPE, place);
  await using daemon = await startDaemon(file);
  using crew = new Crew();
  const { port, pid } = daemon;
  const job = { port, token, type: TYPE, workers, waitSeconds: 0 };
  const { key } = file.account;
  const request = taskPostRequest({ key, tasks: TASKS_PER_POST, type: TYPE });
  const measure = async (batch: number): Promise<Run> => {
    const posts = Math.ceil((effort.tasks * (SHARES[batch] ?? 1)) / TASKS_PER_POST);
    await sendTimes(posts, { port, request });
    const [spent, threadsSpent] = [spendingOf(pid), threadSpendingOf(pid)];
    const crewSpent = spendingOf(crew.pid);
    const { tasks, startedAt, endedAt, ...took } = await crew.ask("drain", { ...job, batch });
    const workersPercent = crewSpent().cpuPercent;
    const { cpuPercent: daemonPercent, rssBytes, seconds: spentSeconds } = spent();
    const threads = threadsSpent();
    const left = await countOpen(daemon.url, key);
    if (tasks !== posts * TASKS_PER_POST || left > 0)
      throw new Error(`${tasks} tasks were completed, and ${left} are left`);
    return {
      tasksPerSecond: (1000 * tasks) / (endedAt - startedAt),
      claim: spreadOf(took.claimMs),
      complete: spreadOf(took.completeMs),
      ...{ daemonPercent, workersPercent, rssBytes },
      threadPercent: (100 * Math.max(...threads)) / spentSeconds,
    };
  };
  const onResult = (batch: number, { tasksPerSecond }: Run): void =>
    note(`batch ${batch}: ${Math.round(tasksPerSecond)} tasks/s`);
  const measured = await inTurn(BATCHES, { rounds, uncounted: 1, onResult, measure });
  await daemon.stop();
  const rows = measured.map(({ leg, results: runs }) => {
    return { what: [`${workers} workers, batch ${leg}`], runs, remark: bottleneck(runs) };
  });
  const runs = measured.find(({ leg }) => leg === RATE_MIN.batch)?.results ?? [];
  const rate = figureOf({ value: (run) => run.tasksPerSecond }, runs);
  const min = RATE_MIN[place.newDatabase === undefined ? "file" : "server"];
  print(figureTable(FIGURES, rows, { remark: "bound by" }));
  print(
    `\n- batches of ${RATE_MIN.batch} at least ${numberText(min)} tasks/s: ${verdict(rate >= min)}\n`,
  );
  print(`${rounds} rounds, medians; inputs of 300 bytes.\n`);
}

const userData = z.object({ tasks: z.object({ queued: z.number(), running: z.number() }) });

async function countOpen(url: string, key: string): Promise<number> {
  const caller = Caller.withKey(url, key);
  const text = await caller.done(caller.get("/v1/appendix/user_data"));
  const { queued, running } = userData.parse(JSON.parse(text)).tasks;
  return queued + running;
}

/** What was fully used; "waiting" if nothing was, so that the disk was awaited. */
function bottleneck(runs: readonly Run[]): string {
  const of = (value: (run: Run) => number): number => figureOf({ value }, runs);
  if (of((run) => run.workersPercent) >= BUSY_PERCENT) return "the workers";
  if (of((run) => run.threadPercent) >= BUSY_PERCENT) return "a thread of the daemon";
  const both = of((run) => run.daemonPercent + run.workersPercent);
  return both >= BUSY_PERCENT * availableParallelism() ? "all cores together" : "waiting";
}

/** Lets workers wait for tasks that do not come, measures what that costs the daemon, then posts some. */
async function measureIdle(
  { waiting, seconds, posts }: { waiting: number; seconds: number; posts: number },
  { place, print }: Bench,
): Promise<void> {
  const { file, token } = await createWorkerFile(TYPE, place);
  await using daemon = await startDaemon(file);
  using crew = new Crew();
  const { port, pid } = daemon;
  await sleep(SETTLE_MS);
  const before = await observe(pid, SETTLE_MS);
  const job = { port, token, type: TYPE, batch: 1, waitSeconds: WAIT_SECONDS };
  await crew.ask("wait", { ...job, workers: waiting });
  await sleep(OPENED_MS);
  const emptyBefore = await crew.ask("empty");
  const during = await observe(pid, seconds * 1000);
  const empty = (await crew.ask("empty")) - emptyBefore;
  const request = taskPostRequest({ key: file.account.key, tasks: 1, type: TYPE });
  const hand = spreadOf(await crew.ask("hand", { port, request, posts }));
  await daemon.stop();
  const grownBytes = during.rssBytesMax - before.rssBytesMax;
  const facts: [string, string][] = [
    [`daemon CPU over ${seconds} s, % of a core`, during.cpuPercent.toFixed(2)],
    ["the same before they came", before.cpuPercent.toFixed(2)],
    ["daemon RSS before they came, MB", megabytes(before.rssBytesMax)],
    ["the most while they wait, MB above that", megabytes(grownBytes)],
    [`empty polls in these ${seconds} s, with wait_seconds ${WAIT_SECONDS}`, String(empty)],
  ];
  print(factTable([...facts, ...handFacts(hand)], `${numberText(waiting)} workers wait`));
  const isQuiet = during.cpuPercent < IDLE_CPU_PERCENT_MAX;
  const isSmall = grownBytes < IDLE_RSS_BYTES_MAX;
  print(`\n- under ${IDLE_CPU_PERCENT_MAX} % of a core: ${verdict(isQuiet)}`);
  print(`- under ${megabytes(IDLE_RSS_BYTES_MAX)} MB above idle: ${verdict(isSmall)}\n`);
}

async function observe(pid: number, forMs: number) {
  const spent = spendingOf(pid);
  let rssBytesMax = 0;
  for (;;) {
    const { seconds, cpuPercent, rssBytes } = spent();
    rssBytesMax = Math.max(rssBytesMax, rssBytes);
    if (seconds * 1000 >= forMs) return { cpuPercent, rssBytesMax };
    await sleep(SAMPLE_MS);
  }
}

/**
 * Posts tasks at one node, each when the one before is completed, to a worker that waits at another. Without
 * notifications a post follows a poll of the node, so that it waits nearly as long as there is between two polls.
 */
async function measureOtherNode(
  place: DaemonPlace,
  { url, how, posts }: { url: string; how: keyof typeof HAND_MS_MAX; posts: number },
): Promise<string> {
  const more = `\n[types.${TYPE}]\nrunner = "worker"\nlease = "30s"\n`;
  const flags = how === "polled" ? ["--no-notify"] : [];
  await using cluster = await Cluster.start({ place, url, nodes: 2, more, flags });
  const token = await cluster.createWorker("bench", [TYPE]);
  using crew = new Crew();
  const { port } = cluster.node(1).daemon;
  const waits = { workers: 1, batch: 1, waitSeconds: WAIT_SECONDS };
  await crew.ask("wait", { port, token, type: TYPE, ...waits });
  const request = taskPostRequest({ key: cluster.account.key, tasks: 1, type: TYPE });
  const order = { port: cluster.node(0).daemon.port, request, posts };
  const hand = spreadOf(await crew.ask("hand", order));
  const msMax = HAND_MS_MAX[how];
  const title = `a worker waits at another node, ${how === "notified" ? "with" : "without"} notifications`;
  const budget = `- p50 at most ${numberText(msMax)} ms: ${verdict(hand.p50Ms <= msMax)}`;
  return `${factTable(handFacts(hand), title)}\n\n${budget}`;
}

function handFacts({ count, p50Ms, p99Ms, maxMs }: Spread): [string, string][] {
  return [
    [`post → task at a worker, p50 ms of ${count}`, p50Ms.toFixed(1)],
    ["p99 ms", p99Ms.toFixed(1)],
    ["slowest ms", maxMs.toFixed(1)],
  ];
}
