import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import {
  createDaemonFile,
  startDaemon,
  type DaemonFile,
  type DaemonPlace,
} from "../kit/daemon-file.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { sendTimes } from "../kit/load.ts";
import { processUsage } from "../kit/processes.ts";
import { taskPostRequest } from "../kit/request.ts";

/** How large a backlog, and how often to restart on it. */
export interface BacklogOptions {
  readonly place: DaemonPlace;
  /** A multiple of 100. */
  readonly tasks: number;
  readonly restarts: number;
}

/** A start: how long it took to the ready line, and the memory at that moment and a second later. */
export interface StartCost {
  readonly readyMs: number;
  readonly rssBytes: number;
  readonly settledRssBytes: number;
}

/** The cost of a start without a backlog and with one. */
export interface BacklogReport {
  readonly empty: readonly StartCost[];
  readonly full: readonly StartCost[];
  readonly drain: Drain;
}

/** The backlog worked off. */
export interface Drain {
  readonly seconds: number;
  readonly rssBytesMax: number;
}

const TASKS_PER_POST = 100;
const SETTLED_MS = 1000;
const SAMPLE_MS = 50;

/**
 * Kills a daemon that has a backlog of queued tasks and starts it again, several times; then lets it work the
 * backlog off. Rejects when a queued task is lost.
 */
export async function runBacklog(options: BacklogOptions): Promise<BacklogReport> {
  const file = await createDaemonFile(options.place);
  const empty = await startCosts(file, options.restarts);
  await postBacklog(file, options.tasks);
  const full = await startCosts(file, options.restarts);
  const drain = await drainBacklog(file, options.tasks);
  return { empty, full, drain };
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
async function drainBacklog(file: DaemonFile, tasks: number): Promise<Drain> {
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
