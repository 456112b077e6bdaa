import { setTimeout as sleep } from "node:timers/promises";

import { createWorkerFile, startDaemon, type DaemonPlace } from "../kit/daemon-file.ts";
import { spreadOf, type Spread } from "../kit/durations.ts";
import { spendingOf } from "../kit/processes.ts";
import { taskPostRequest } from "../kit/request.ts";
import { Crew } from "./crew.ts";

/** How many workers wait, and for how long they are looked at. */
export interface IdleOptions {
  readonly place: DaemonPlace;
  readonly workers: number;
  readonly seconds: number;
  /** Single tasks that are posted then, one after the other. */
  readonly posts: number;
  /** From the start to the first look, until its garbage is collected. 5 s unless given. */
  readonly settleMs?: number;
}

/** The cost of waiting workers for the daemon. */
export interface IdleReport {
  readonly workers: number;
  readonly seconds: number;
  /** Of one core, while they wait. */
  readonly cpuPercent: number;
  /** Of one core, before they came. */
  readonly cpuPercentBefore: number;
  readonly rssBytesBefore: number;
  /** The most while they wait. */
  readonly rssBytesMax: number;
  /** Polls that came back empty while they wait: each worker's every `WAIT_SECONDS`. */
  readonly emptyAnswers: number;
  /** From the sending of a post to the task's arrival at a worker. */
  readonly hand: Spread;
}

/** How long each poll waits. */
export const WAIT_SECONDS = 30;

const TYPE = "leased";
const SETTLE_MS = 5000;
// Until the memory that a thousand connections at once have taken is as it will be.
const OPENED_MS = 2000;
const SAMPLE_MS = 1000;

/** Has workers wait for tasks that do not come, looks at what that costs the daemon, then posts some. */
export async function measureIdle(options: IdleOptions): Promise<IdleReport> {
  const { workers, seconds, posts, settleMs = SETTLE_MS } = options;
  const { file, token } = await createWorkerFile(TYPE, options.place);
  await using daemon = await startDaemon(file);
  using crew = new Crew();
  await sleep(settleMs);
  const before = await observe(daemon.pid, settleMs);
  const who = { port: daemon.port, token, type: TYPE };
  await crew.ask("wait", { ...who, workers, batch: 1, waitSeconds: WAIT_SECONDS });
  await sleep(OPENED_MS);
  const emptyBefore = await crew.ask("empty");
  const during = await observe(daemon.pid, seconds * 1000);
  const empty = await crew.ask("empty");
  const request = taskPostRequest({ key: file.account.key, tasks: 1, type: TYPE });
  const handMs = await crew.ask("hand", { port: daemon.port, request, posts });
  await daemon.stop();
  return {
    workers,
    seconds,
    hand: spreadOf(handMs),
    cpuPercent: during.cpuPercent,
    cpuPercentBefore: before.cpuPercent,
    rssBytesBefore: before.rssBytesMax,
    rssBytesMax: during.rssBytesMax,
    emptyAnswers: empty - emptyBefore,
  };
}

async function observe(
  pid: number,
  forMs: number,
): Promise<{ readonly cpuPercent: number; readonly rssBytesMax: number }> {
  const spent = spendingOf(pid);
  let rssBytesMax = 0;
  for (;;) {
    const { seconds, cpuPercent, rssBytes } = spent();
    rssBytesMax = Math.max(rssBytesMax, rssBytes);
    if (seconds * 1000 >= forMs) return { cpuPercent, rssBytesMax };
    await sleep(SAMPLE_MS);
  }
}
