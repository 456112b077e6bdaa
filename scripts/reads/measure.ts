import { statSync } from "node:fs";
import { Agent, request } from "node:http";

import type { DaemonFile } from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { Durations, type Spread } from "../kit/durations.ts";
import { processUsage } from "../kit/processes.ts";

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

// 100 requests of 10 tasks a second; each read 10 times a second, and once the largest page there is, which costs
// a hundred times what the others do.
const POST_EVERY_MS = 10;
const TASKS_PER_POST = 10;
const READ_EVERY_MS = 100;
const LARGE_READ_EVERY_MS = 1000;
const WARM_UP_MS = 3000;

/** Sends each read at a steady rate while tasks are posted at another. */
export async function measureReads({ file, daemon, seconds }: ReadRun): Promise<ReadReport> {
  using view = new DatabaseView(file.database);
  const tasksBefore = view.number("SELECT count(*) FROM tasks");
  const client = new Client(daemon.port, file.account.key);
  const reads = readPaths(view).map((read) => ({ ...read, answers: new Durations() }));
  const endsAt = performance.now() + WARM_UP_MS + seconds * 1000;
  const measuredFrom = performance.now() + WARM_UP_MS;
  let posted = 0;
  const posting = pace({ everyMs: POST_EVERY_MS, endsAt }, async (dueAt) => {
    await client.post();
    if (dueAt >= measuredFrom) posted += TASKS_PER_POST;
  });
  const reading = reads.map((read, i) =>
    pace(
      {
        everyMs: read.everyMs ?? READ_EVERY_MS,
        endsAt,
        offsetMs: (i * READ_EVERY_MS) / reads.length,
      },
      async (dueAt) => {
        await client.get(read.path());
        if (dueAt < measuredFrom) return;
        read.answers.add(performance.now() - dueAt);
      },
    ),
  );
  await Promise.all([posting, ...reading]);
  client.close();
  return {
    reads: reads.map(({ name, answers }) => ({ name, ...answers.spread })),
    tasksBefore,
    postedPerSecond: posted / seconds,
    databaseMb: statSync(file.database).size / 1e6,
    rssMb: processUsage(daemon.pid).rssBytes / 1e6,
  };
}

interface Read {
  readonly name: string;
  readonly path: () => string;
  readonly everyMs?: number;
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
    ...["", "state=failed", "state=queued", "state=completed", "tag=tagged", "type=parked"].map(
      list,
    ),
    ...["state=queued&type=parked", "state=queued&tag=waiting", "tag=tagged&type=echo"].map(list),
    ...[`created_before=${time}`, `created_after=${time}`].map(list),
    list(`state=completed&type=echo&created_before=${time}`),
    // Nothing, or next to nothing, passes these.
    ...["type=none", "state=running", "state=failed&type=parked"].map(list),
    { ...list("limit=1000"), everyMs: LARGE_READ_EVERY_MS },
  ];
}

interface Pace {
  readonly everyMs: number;
  readonly endsAt: number;
  readonly offsetMs?: number;
}

// What is sent late is late for whoever waits: a slow answer must not thin out the load.
async function pace(
  { everyMs, endsAt, offsetMs = 0 }: Pace,
  send: (dueAt: number) => Promise<void>,
): Promise<void> {
  const under: Promise<void>[] = [];
  const failures: unknown[] = [];
  for (let dueAt = performance.now() + offsetMs; dueAt < endsAt; dueAt += everyMs) {
    const waitMs = dueAt - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    under.push(send(dueAt).catch((error: unknown) => void failures.push(error)));
    if (failures.length > 0) throw failures[0];
  }
  await Promise.all(under);
  if (failures.length > 0) throw failures[0];
}

/** Requests with one account's key over kept connections. */
class Client {
  readonly #agent = new Agent({ keepAlive: true });
  readonly #port: number;
  readonly #authorization: string;

  constructor(port: number, key: string) {
    this.#port = port;
    this.#authorization = `Bearer ${key}`;
  }

  get(path: string): Promise<void> {
    return this.#send("GET", path);
  }

  post(): Promise<void> {
    return this.#send("POST", "/v1/tasks/task_post", BODY);
  }

  close(): void {
    this.#agent.destroy();
  }

  #send(method: string, path: string, body?: string): Promise<void> {
    const headers = {
      authorization: this.#authorization,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    };
    const where = { host: "127.0.0.1", port: this.#port, agent: this.#agent };
    return new Promise((resolve, reject) => {
      const sent = request({ ...where, method, path, headers }, (response) => {
        response.resume();
        response.once("end", () => {
          if (response.statusCode === 200) resolve();
          else reject(new Error(`${method} ${path} answered ${response.statusCode}`));
        });
      });
      sent.once("error", reject).end(body);
    });
  }
}

const TASK = { type: "echo", tag: "fresh", input: { source: "s3://uploads/2026/clip.mov" } };
const BODY = JSON.stringify(Array.from({ length: TASKS_PER_POST }, () => TASK));
