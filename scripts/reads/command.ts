import { statSync } from "node:fs";

import { defineCommand } from "../kit/command.ts";
import { createDaemonFile, startDaemon, type DaemonFile } from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { epochMs, type Spread } from "../kit/durations.ts";
import { SPREAD_FIGURES, figureTable, p99Line, type Figure } from "../kit/figures.ts";
import { fillDatabase } from "../kit/fill-tasks.ts";
import { number, whole } from "../kit/flags.ts";
import { runOpenLoad } from "../kit/open-load.ts";
import { processUsage } from "../kit/processes.ts";
import { requestText, servedText } from "../kit/request.ts";

const P99_MS_MAX = 20;
// Each read ten times a second, and once the largest page there is, which costs a hundred times what the others do.
const POSTS_PER_SECOND = 100;
const TASKS_PER_POST = 10;
const READS_PER_SECOND = 10;
const LARGE_READS_PER_SECOND = 1;
// So many that no request waits for a connection, also when the daemon stands still for seconds. But each is used
// within seconds: the daemon closes those that bring no request.
const POST_CONNECTIONS = 64;
const READ_SECONDS = 3;
const SOON_MS = 500;
const WARM_UP_MS = 3000;
const TASK = { type: "echo", tag: "fresh", input: { source: "s3://uploads/2026/clip.mov" } };
const ANSWERS: Figure<Spread> = { name: "answers", value: ({ count }) => count };

export const command = defineCommand({
  about: `Fills a database with tasks in every state, then measures how long reads take while 1,000 tasks
a second are posted: each read is sent on time, whether the one before has been answered or not.`,
  flags: {
    tasks: whole("tasks in the file before", 1_000_000),
    seconds: number("how long it is measured", 30),
  },
  async run({ tasks, seconds }, { place, print }) {
    const file = await createDaemonFile(place);
    await using daemon = await startDaemon(file);
    await fillDatabase({ file, daemon, tasks });
    const report = await measureReads({ file, daemon, seconds });
    await daemon.stop();
    print(report);
  },
});

/** Sends each read at a steady rate while tasks are posted at another. */
async function measureReads({
  file,
  daemon,
  seconds,
}: {
  readonly file: DaemonFile;
  readonly daemon: DaemonProcess;
  readonly seconds: number;
}): Promise<string> {
  using view = new DatabaseView(file.database);
  const tasksBefore = view.number("SELECT count(*) FROM tasks");
  const secret = file.account.key;
  const from = epochMs() + SOON_MS;
  const countedFrom = from + WARM_UP_MS;
  const time = { from, countedFrom, to: countedFrom + seconds * 1000, port: daemon.port };
  const reading = readPaths(view).map(async ({ name, path, perSecond }, i, { length }) => {
    const rate = perSecond ?? READS_PER_SECOND;
    // Not all at the same moments.
    const offsetMs = (i * 1000) / READS_PER_SECOND / length;
    const { answers } = await runOpenLoad({
      ...time,
      from: from + offsetMs,
      connections: READ_SECONDS * rate,
      perSecond: rate,
      requestAt: () => requestText(`GET ${path()}`, { secret }),
      require: servedText,
    });
    return { name, ...answers };
  });
  const body = JSON.stringify(Array.from({ length: TASKS_PER_POST }, () => TASK));
  const post = requestText("POST /v1/tasks/task_post", { secret, body });
  const connections = POST_CONNECTIONS;
  const perSecond = POSTS_PER_SECOND;
  const posting = runOpenLoad({ ...time, connections, perSecond, requestAt: () => post });
  const [{ answers: posted }, reads] = await Promise.all([posting, Promise.all(reading)]);

  const rows = reads.map((read) => ({ what: [read.name], runs: [read] }));
  const table = figureTable([ANSWERS, ...SPREAD_FIGURES], rows, { what: ["read"] });
  const databaseMb = (statSync(file.database).size / 1e6).toFixed(0);
  const rssMb = (processUsage(daemon.pid).rssBytes / 1e6).toFixed(0);
  const postedPerSecond = ((posted.count * TASKS_PER_POST) / seconds).toFixed(0);
  const load =
    `${tasksBefore} tasks in the file before (${databaseMb} MB); ` +
    `${postedPerSecond} posted, run and finished a second meanwhile; RSS ${rssMb} MB.`;
  return `${table}\n\n${load}\n${p99Line("read", reads, P99_MS_MAX)}`;
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
