import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, startDaemon, type DaemonFile } from "../kit/daemon-file.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { median } from "../kit/durations.ts";
import { figureTable, megabytes, numberText, type Figure } from "../kit/figures.ts";
import { whole } from "../kit/flags.ts";
import { sendTimes } from "../kit/load.ts";
import { processUsage } from "../kit/processes.ts";
import { taskPostRequest } from "../kit/request.ts";

/** A start: how long it took to the ready line, and the memory at that moment and a second later. */
interface StartCost {
  readonly readyMs: number;
  readonly rssBytes: number;
  readonly settledRssBytes: number;
}

const TASKS_PER_POST = 100;
const SETTLED_MS = 1000;
const SAMPLE_MS = 50;
const READY_MS_MAX = 1000;
// The page caches of SQLite's connections fill by this much on any file; a hundred bytes for each queued
// task would be 10 MB more.
const GROWTH_BYTES_MAX = 20e6;

const FIGURES: readonly Figure<StartCost>[] = [
  { name: "ready ms, p50", value: ({ readyMs }) => readyMs },
  { name: "ready ms, slowest", value: ({ readyMs }) => readyMs, of: (all) => Math.max(...all) },
  { name: "RSS MB, ready", value: ({ rssBytes }) => rssBytes / 1e6 },
  { name: "RSS MB, 1 s later", value: ({ settledRssBytes }) => settledRssBytes / 1e6 },
];

/** Kills a daemon that has a backlog and starts it again, several times; then lets it work the backlog off. */
export const command = defineCommand({
  about: "What a restart after a kill costs with a long queue, in time and in memory.",
  flags: {
    tasks: whole("queued tasks, rounded up to hundreds", 100_000),
    rounds: whole("starts without the queue, and with it", 5),
  },
  async run({ tasks: wanted, rounds }, { place, print }) {
    const tasks = Math.ceil(wanted / TASKS_PER_POST) * TASKS_PER_POST;
    const file = await createDaemonFile(place);
    const empty = await startCosts(file, rounds);
    await postBacklog(file, tasks);
    const full = await startCosts(file, rounds);
    const { seconds, rssBytesMax } = await drainBacklog(file, tasks);
    const table = figureTable(FIGURES, [
      { what: ["empty database"], runs: empty },
      { what: [`${numberText(tasks)} queued tasks`], runs: full },
    ]);
    const memory = `with at most ${megabytes(rssBytesMax)} MB resident`;
    print(`${table}\n\nWorked off in ${seconds.toFixed(1)} s ${memory}.`);
    const faults = [...slowStart(full), ...grownMemory(empty, full)];
    if (faults.length > 0) throw new Error(`with ${tasks} queued tasks ${faults.join(", and ")}`);
  },
});

function slowStart(full: readonly StartCost[]): readonly string[] {
  const readyMs = median(full.map((cost) => cost.readyMs));
  return readyMs < READY_MS_MAX ? [] : [`it takes ${readyMs.toFixed(0)} ms to be ready`];
}

function grownMemory(empty: readonly StartCost[], full: readonly StartCost[]): readonly string[] {
  const settled = (costs: readonly StartCost[]): number =>
    median(costs.map(({ settledRssBytes }) => settledRssBytes));
  const grownBytes = settled(full) - settled(empty);
  return grownBytes < GROWTH_BYTES_MAX ? [] : [`it takes ${megabytes(grownBytes)} MB more`];
}

async function startCosts(file: DaemonFile, restarts: number): Promise<readonly StartCost[]> {
  const costs: StartCost[] = [];
  for (let count = 0; count < restarts; count++) {
    await using daemon = await startDaemon(file);
    const { rssBytes } = processUsage(daemon.pid);
    await sleep(SETTLED_MS);
    const { rssBytes: settledRssBytes } = processUsage(daemon.pid);
    costs.push({ readyMs: daemon.readyMs, rssBytes, settledRssBytes });
    await daemon.kill();
  }
  return costs;
}

async function postBacklog(file: DaemonFile, tasks: number): Promise<void> {
  await using daemon = await startDaemon(file);
  const post = { key: file.account.key, tasks: TASKS_PER_POST, type: "parked" };
  const request = taskPostRequest(post);
  await sendTimes(tasks / TASKS_PER_POST, { port: daemon.port, request });
  await daemon.kill();
}

// The type that never got to its tasks becomes one that runs them at once.
async function drainBacklog(
  file: DaemonFile,
  tasks: number,
): Promise<{ readonly seconds: number; readonly rssBytesMax: number }> {
  writeFileSync(join(file.folder, "postbackd.toml"), '[types.parked]\nrunner = "echo"\n');
  await using daemon = await startDaemon(file);
  using view = new DatabaseView(file.database);
  const startedAt = performance.now();
  let rssBytesMax = 0;
  while (!view.isQuiet()) {
    daemon.requireRunning();
    rssBytesMax = Math.max(rssBytesMax, processUsage(daemon.pid).rssBytes);
    await sleep(SAMPLE_MS);
  }
  const seconds = (performance.now() - startedAt) / 1000;
  await daemon.stop();
  const finished = view.number("SELECT count(*) FROM tasks WHERE state = 'completed'");
  if (finished !== tasks) throw new Error(`${finished} of ${tasks} tasks were completed`);
  return { seconds, rssBytesMax };
}
