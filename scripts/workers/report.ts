import { availableParallelism } from "node:os";

import type { Engine } from "../kit/daemon-file.ts";
import type { Spread } from "../kit/durations.ts";
import { figureOf, figureTable, megabytes, numberText, type Figure } from "../kit/figures.ts";
import { factTable, verdict } from "../kit/text-table.ts";
import type { IdleReport } from "./idle.ts";
import type { ThroughputRun } from "./throughput.ts";

const FIGURES: readonly Figure<ThroughputRun>[] = [
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

/** A core that is this busy has no time left: what is missing is the kernel's and the measuring's. */
const BUSY_PERCENT = 85;
const BUDGET = { batch: 50, tasksPerSecond: { file: 25_000, server: 8000 } };
/** From a post at one node to a worker at another. */
const HAND_MS_MAX = { notified: 15, polled: 1100 };
const IDLE_CPU_PERCENT_MAX = 3;
const IDLE_RSS_BYTES_MAX = 60e6;

/** A row for each size of batch, medians over its rounds, as a Markdown table. */
export function throughputTable(runs: readonly ThroughputRun[], workers: number): string {
  const rows = batchesOf(runs).map((batch) => {
    const ofBatch = runsOf(runs, batch);
    const what = [`${workers} workers, batch ${batch}`];
    return { what, runs: ofBatch, remark: bottleneck(ofBatch) };
  });
  return figureTable(FIGURES, rows, { remark: "bound by" });
}

/** Whether the batches that were measured keep the budget; empty where none has one. */
export function budgetLine(runs: readonly ThroughputRun[], engine: Engine): string {
  const { batch } = BUDGET;
  const tasksPerSecond = BUDGET.tasksPerSecond[engine];
  if (!batchesOf(runs).includes(batch)) return "";
  const rate = figureOf({ value: (run) => run.tasksPerSecond }, runsOf(runs, batch));
  return `- batches of ${batch} at least ${numberText(tasksPerSecond)} tasks/s: ${verdict(rate >= tasksPerSecond)}`;
}

/** Whose time was used up; "waiting" where nobody's was, so that it was for the disk. */
function bottleneck(runs: readonly ThroughputRun[]): string {
  const of = (value: (run: ThroughputRun) => number): number => figureOf({ value }, runs);
  const all = of((run) => run.daemonPercent + run.workersPercent);
  if (of((run) => run.workerPercent) >= BUSY_PERCENT) return "a process of workers";
  if (of((run) => run.threadPercent) >= BUSY_PERCENT) return "a thread of the daemon";
  return all >= BUSY_PERCENT * availableParallelism() ? "all cores together" : "waiting";
}

function batchesOf(runs: readonly ThroughputRun[]): readonly number[] {
  return [...new Set(runs.map(({ batch }) => batch))];
}

function runsOf(runs: readonly ThroughputRun[], batch: number): readonly ThroughputRun[] {
  return runs.filter((run) => run.batch === batch);
}

/** The cost of waiting workers, as a Markdown table. */
export function idleTable(report: IdleReport): string {
  const { workers, seconds, hand } = report;
  const facts = [
    [`daemon CPU over ${seconds} s, % of a core`, report.cpuPercent.toFixed(2)],
    ["the same before they came", report.cpuPercentBefore.toFixed(2)],
    ["daemon RSS before they came, MB", megabytes(report.rssBytesBefore)],
    ["the most while they wait, MB above that", megabytes(grownBytes(report))],
    [`polls answered empty in these ${seconds} s`, String(report.emptyAnswers)],
    [`post → task at a worker, p50 ms of ${hand.count}`, hand.p50Ms.toFixed(1)],
    ["p99 ms", hand.p99Ms.toFixed(1)],
    ["slowest ms", hand.maxMs.toFixed(1)],
  ] as const;
  return factTable(facts, `${numberText(workers)} workers wait`);
}

/** Whether waiting workers are as cheap as they must be. */
export function idleLines(report: IdleReport): string {
  const isQuiet = report.cpuPercent < IDLE_CPU_PERCENT_MAX;
  const isSmall = grownBytes(report) < IDLE_RSS_BYTES_MAX;
  return [
    `- under ${IDLE_CPU_PERCENT_MAX} % of a core: ${verdict(isQuiet)}`,
    `- under ${IDLE_RSS_BYTES_MAX / 1e6} MB above idle: ${verdict(isSmall)}`,
  ].join("\n");
}

/** How long a task is on its way to a worker at another node, with its budget. */
export function otherNodeReport(hand: Spread, how: keyof typeof HAND_MS_MAX): string {
  const facts = [
    [`post → task at a worker, p50 ms of ${hand.count}`, hand.p50Ms.toFixed(1)],
    ["p99 ms", hand.p99Ms.toFixed(1)],
    ["slowest ms", hand.maxMs.toFixed(1)],
  ] as const;
  const msMax = HAND_MS_MAX[how];
  const title = `a worker waits at another node, ${how === "notified" ? "with" : "without"} notifications`;
  return `${factTable(facts, title)}\n\n- p50 at most ${numberText(msMax)} ms: ${verdict(hand.p50Ms <= msMax)}`;
}

function grownBytes({ rssBytesBefore, rssBytesMax }: IdleReport): number {
  return rssBytesMax - rssBytesBefore;
}
