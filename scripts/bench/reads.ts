import { statSync } from "node:fs";

import { defineCommand, number, whole } from "../kit/command.ts";
import { createDaemonFile, startDaemon } from "../kit/daemon.ts";
import { DatabaseView } from "../kit/database.ts";
import { requestText, servedText } from "../kit/http.ts";
import { runOpenLoad } from "../kit/load.ts";
import {
  epochMs,
  figureTable,
  megabytes,
  SPREAD_FIGURES,
  verdict,
  type Figure,
  type Spread,
} from "../kit/measure.ts";
import { processUsage } from "../kit/processes.ts";
import { fillTasks } from "./fill.ts";

const P99_MS_MAX = 20;
// Each read ten times per second. The largest page costs a hundred times as much.
const READS_PER_SECOND = 10;
const LARGE_READS_PER_SECOND = 1;
// No request waits for a connection while the daemon pauses for seconds, and each is used before the daemon closes it.
const READ_SECONDS = 3;
const SOON_MS = 500;
const WARM_UP_MS = 3000;

/** Ten tasks per request, 100 requests per second. */
export const STEADY_POSTS = { perSecond: 100, tasks: 10, connections: 64 };

/** A task_post of so many tasks that run. */
export function freshPost(secret: string, tasks: number): string {
  const task = { type: "echo", tag: "fresh", input: { source: "s3://uploads/2026/clip.mov" } };
  const body = JSON.stringify(Array.from({ length: tasks }, () => task));
  return requestText("POST /v1/tasks/task_post", { secret, body });
}

export const ANSWERS: Figure<Spread> = { name: "answers", value: ({ count }) => count };

export const reads = defineCommand({
  about: `Fills a database with tasks in every state, then measures how long reads take while 1,000 tasks per second are
posted: each read is sent on time, whether or not the read before has a response.`,
  flags: {
    tasks: whole("tasks in the file before", 1_000_000),
    seconds: number("how long it is measured", 30),
  },
  async run({ tasks, seconds }, { place, print }) {
    const file = await createDaemonFile(place);
    await using daemon = await startDaemon(file);
    await fillTasks(file, daemon, tasks);
    using view = new DatabaseView(file.database);
    const secret = file.account.key;
    const from = epochMs() + SOON_MS;
    const countedFrom = from + WARM_UP_MS;
    const time = { from, countedFrom, to: countedFrom + seconds * 1000, port: daemon.port };
    const reading = readPaths(view).map(async ({ name, path, perSecond }, i, { length }) => {
      const rate = perSecond ?? READS_PER_SECOND;
      const spread = await runOpenLoad({
        ...time,
        // Not all at the same moments.
        from: from + (i * 1000) / READS_PER_SECOND / length,
        connections: READ_SECONDS * rate,
        perSecond: rate,
        requestAt: () => requestText(`GET ${path()}`, { secret }),
        require: servedText,
      });
      return { name, ...spread };
    });
    const post = freshPost(secret, STEADY_POSTS.tasks);
    const posting = runOpenLoad({ ...time, ...STEADY_POSTS, requestAt: () => post });
    const [posted, spreads] = await Promise.all([posting, Promise.all(reading)]);
    const rows = spreads.map((read) => ({ what: [read.name], runs: [read] }));
    print(figureTable([ANSWERS, ...SPREAD_FIGURES], rows, { what: ["read"] }));
    const rate = ((posted.count * STEADY_POSTS.tasks) / seconds).toFixed(0);
    const rss = megabytes(processUsage(daemon.pid).rssBytes);
    print(
      `\n${tasks} tasks in the file before (${megabytes(statSync(file.database).size)} MB); ` +
        `${rate} posted and run per second meanwhile; RSS ${rss} MB.`,
    );
    const late = spreads.filter(({ p99Ms }) => p99Ms > P99_MS_MAX).map(({ name }) => name);
    const by = late.length === 0 ? "" : ` by ${late.join(", ")}`;
    print(`p99 of every read within ${P99_MS_MAX} ms: ${verdict(late.length === 0)}${by}`);
    await daemon.stop();
  },
});

interface Read {
  readonly name: string;
  readonly path: () => string;
  readonly perSecond?: number;
}

function readPaths(view: DatabaseView): readonly Read[] {
  const ids = view.column("SELECT id FROM tasks WHERE abs(random()) % 200 = 0 LIMIT 5000");
  const anyId = (): string => String(ids[Math.floor(Math.random() * ids.length)]);
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
    ...["", "state=failed", "state=queued", "state=completed"].map(list),
    ...["tag=tagged", "type=parked", "state=queued&type=parked"].map(list),
    ...["state=queued&tag=waiting", "tag=tagged&type=echo"].map(list),
    ...[`created_before=${time}`, `created_after=${time}`].map(list),
    list(`state=completed&type=echo&created_before=${time}`),
    // Few tasks match, or none.
    ...["type=none", "state=running", "state=failed&type=parked"].map(list),
    { ...list("limit=1000"), perSecond: LARGE_READS_PER_SECOND },
  ];
}
