import { statSync } from "node:fs";

import type { DaemonFile } from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { epochMs, type Spread } from "../kit/durations.ts";
import { runOpenLoad } from "../kit/open-load.ts";
import { processUsage } from "../kit/processes.ts";
import { requestText, servedText } from "../kit/request.ts";

/** How one read went. Times count from the moment at which it was to be sent. */
export interface ReadLatency extends Spread {
  readonly name: string;
}

export interface ReadReport {
  readonly reads: readonly ReadLatency[];
  readonly tasksBefore: number;
  readonly postedPerSecond: number;
  readonly databaseMb: number;
  readonly rssMb: number;
}

export interface ReadRun {
  readonly file: DaemonFile;
  readonly daemon: DaemonProcess;
  readonly seconds: number;
}

// Each read ten times a second, and once the largest page there is, which costs a hundred times what the others do.
const POSTS_PER_SECOND = 100;
const TASKS_PER_POST = 10;
const READS_PER_SECOND = 10;
const LARGE_READS_PER_SECOND = 1;
// So many that no request waits for a connection, also when the daemon stands still for seconds.
const POST_CONNECTIONS = 64;
const READ_CONNECTIONS = 32;
const SOON_MS = 500;
const WARM_UP_MS = 3000;
const TASK = { type: "echo", tag: "fresh", input: { source: "s3://uploads/2026/clip.mov" } };

/** Sends each read at a steady rate while tasks are posted at another. */
export async function measureReads({ file, daemon, seconds }: ReadRun): Promise<ReadReport> {
  using view = new DatabaseView(file.database);
  const tasksBefore = view.number("SELECT count(*) FROM tasks");
  const secret = file.account.key;
  const from = epochMs() + SOON_MS;
  const countedFrom = from + WARM_UP_MS;
  const time = { from, countedFrom, to: countedFrom + seconds * 1000, port: daemon.port };
  const body = JSON.stringify(Array.from({ length: TASKS_PER_POST }, () => TASK));
  const post = requestText("POST /v1/tasks/task_post", { secret, body });
  const reading = readPaths(view).map(async ({ name, path, perSecond }, i, { length }) => {
    // Not all at the same moments.
    const offsetMs = (i * 1000) / READS_PER_SECOND / length;
    const { answers } = await runOpenLoad({
      ...time,
      from: from + offsetMs,
      connections: READ_CONNECTIONS,
      perSecond: perSecond ?? READS_PER_SECOND,
      requestAt: () => requestText(`GET ${path()}`, { secret }),
      require: servedText,
    });
    return { name, ...answers };
  });
  const posting = runOpenLoad({
    ...time,
    connections: POST_CONNECTIONS,
    perSecond: POSTS_PER_SECOND,
    requestAt: () => post,
  });
  const [{ answers: posted }, reads] = await Promise.all([posting, Promise.all(reading)]);
  return {
    reads,
    tasksBefore,
    postedPerSecond: (posted.count * TASKS_PER_POST) / seconds,
    databaseMb: statSync(file.database).size / 1e6,
    rssMb: processUsage(daemon.pid).rssBytes / 1e6,
  };
}

interface Read {
  readonly name: string;
  readonly path: () => string;
  readonly perSecond?: number;
}

function readPaths(view: DatabaseView): readonly Read[] {
  const anyId = view.anyTask();
  const half = view.number("SELECT (min(created_at) + max(created_at)) / 2 FROM tasks");
  const time = new Date(half).toISOString();
  const list = (query: string): Read => ({
    name: `tasks${query === "" ? "" : `?${query}`}`.replaceAll(time, "T"),
    path: () => `/v1/tasks?${query}`,
  });
  const ready = (query: string): Read => ({
    name: `tasks_ready?${query}`,
    path: () => `/v1/tasks/tasks_ready?${query}`,
  });
  return [
    { name: "task_get", path: () => `/v1/tasks/task_get/${anyId()}?collect=false` },
    { name: "user_data", path: () => "/v1/appendix/user_data" },
    ...["limit=100", "limit=100&tag=tagged", "limit=100&type=echo"].map(ready),
    ...["", "state=failed", "state=queued", "state=completed", "tag=tagged", "type=parked"].map(
      list,
    ),
    ...["state=queued&type=parked", "state=queued&tag=waiting", "tag=tagged&type=echo"].map(list),
    ...[`created_before=${time}`, `created_after=${time}`].map(list),
    list(`state=completed&type=echo&created_before=${time}`),
    // Nothing, or next to nothing, passes these.
    ...["type=none", "state=running", "state=failed&type=parked"].map(list),
    { ...list("limit=1000"), perSecond: LARGE_READS_PER_SECOND },
  ];
}
