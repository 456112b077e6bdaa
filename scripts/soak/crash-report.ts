import { median } from "../kit/durations.ts";
import { figureTable, megabytes, numberText, type Figure } from "../kit/figures.ts";
import { factTable } from "../kit/text-table.ts";
import type { BacklogReport, StartCost } from "./backlog-run.ts";
import type { CrashReport } from "./crash-run.ts";

/** The crashes as a Markdown table. */
export function crashTable(report: CrashReport): string {
  const { count, careful, cancelled, restartMs, ...inspection } = report;
  const slowest = Math.max(...restartMs).toFixed(0);
  const windowMs = Math.max(0, ...inspection.unrecordedMs);
  return factTable([
    ["kill -9, under load and while it starts", inspection.kills],
    ["tasks acknowledged, each of them completed", count.acknowledged],
    ["tasks on disk whose acknowledgement the crash cut off", inspection.unacknowledged],
    ["acknowledged results without a delivered postback and pingback", count.missing],
    ["webhooks received, every signature right", count.webhooks],
    ["of these, answered 500 and sent again", count.failed],
    ["duplicates: accepted by the receiver before", inspection.duplicates],
    [
      "accepted attempts in flight at a kill, recorded as interrupted",
      inspection.unrecordedMs.length,
    ],
    ["of those, the longest from arrival to the end of the process, ms", windowMs],
    ["duplicates that this does not explain", 0],
    ["attempts interrupted by a crash and made again, no retry used", inspection.interrupted],
    ["tasks started again after a crash", inspection.rerun],
    ["posts with an Idempotency-Key, each with its tasks once", careful.posts],
    ["of these, sent again because a crash cut off the answer", careful.repeated],
    ["of those, on disk before the crash and answered as kept", careful.replayed],
    ["tasks whose cancelling was acknowledged, cancelled and unsent", cancelled],
    ["counts by state, after every restart", "right"],
    ["integrity_check and foreign_key_check, after every restart", "ok"],
    ["restart to ready, p50 ms", median(restartMs).toFixed(0)],
    ["restart to ready, slowest ms", slowest],
  ]);
}

const START_FIGURES: readonly Figure<StartCost>[] = [
  { name: "ready ms, p50", value: ({ readyMs }) => readyMs },
  { name: "ready ms, slowest", value: ({ readyMs }) => readyMs, of: (all) => Math.max(...all) },
  { name: "RSS MB, ready", value: ({ rssBytes }) => rssBytes / 1e6 },
  { name: "RSS MB, 1 s later", value: ({ settledRssBytes }) => settledRssBytes / 1e6 },
];

/** The cost of starts without and with a backlog, as a Markdown table. */
export function backlogTable({ empty, full }: BacklogReport, tasks: number): string {
  return figureTable(START_FIGURES, [
    { what: ["empty database"], runs: empty },
    { what: [`${numberText(tasks)} queued tasks`], runs: full },
  ]);
}

/** The promises that a backlog breaks: ready within a second, memory flat. */
export function backlogFaults({ empty, full }: BacklogReport): readonly string[] {
  const readyMs = median(full.map((cost) => cost.readyMs));
  const settled = (costs: readonly StartCost[]): number =>
    median(costs.map(({ settledRssBytes }) => settledRssBytes));
  const grownBytes = settled(full) - settled(empty);
  return [
    ...(readyMs < 1000 ? [] : [`it takes ${readyMs.toFixed(0)} ms to be ready`]),
    ...(grownBytes < GROWTH_BYTES_MAX ? [] : [`it takes ${megabytes(grownBytes)} MB more`]),
  ];
}

// The page caches of SQLite's connections fill by this much on any file; a hundred bytes for each queued
// task would be 10 MB more.
const GROWTH_BYTES_MAX = 20e6;
