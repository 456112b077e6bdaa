import Database from "better-sqlite3";
import { better, defineQueue, defineWorker, JobStatus } from "plainjob";

import { serveApi } from "./api.mjs";
import { untilSettled } from "./settled.mjs";
import { Webhooks } from "./webhooks.mjs";

const TYPE = "echo";
// What an idle worker waits before it looks again; its default is a second.
const POLL_MS = 10;
const silent = () => undefined;
const logger = {
  error: (text) => process.stderr.write(`${text}\n`),
  warn: silent,
  info: silent,
  debug: silent,
};

let queue = null;
let webhooks = null;
let workers = [];

function open(service) {
  if (queue !== null) return queue;
  const connection = better(new Database(service));
  queue = defineQueue({ connection, logger });
  // It has set NORMAL, with which a power cut may take what it has acknowledged.
  connection.pragma("synchronous = FULL");
  return queue;
}

export async function serve({ service, key }) {
  const jobs = open(service);
  return serveApi(key, async (tasks) => jobs.addMany(TYPE, tasks));
}

/** A worker runs one job at a time. They poll, so they work only while they are measured. */
export async function work({ service, secret, concurrency }) {
  const jobs = open(service);
  webhooks ??= new Webhooks({ secret, concurrency });
  const options = { queue: jobs, logger, pollIntervall: POLL_MS };
  workers = Array.from({ length: concurrency }, () =>
    defineWorker(TYPE, ({ data }) => webhooks.run(JSON.parse(data)), options),
  );
  for (const worker of workers) void worker.start();
}

export async function settle() {
  await untilSettled(async () => {
    const count = (status) => queue.countJobs({ type: TYPE, status });
    const open = count(JobStatus.Pending) + count(JobStatus.Processing);
    return { open, failed: count(JobStatus.Failed) };
  });
  await Promise.all(workers.map((worker) => worker.stop()));
}
