import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

import { serveApi } from "./api.mjs";
import { untilSettled } from "./settled.mjs";
import { Webhooks } from "./webhooks.mjs";

const MAX_ATTEMPTS = 4;
const CONNECTIONS = 10;
const logger = new Logger(() => (level, message) => {
  if (level === "error") process.stderr.write(`graphile-worker: ${message}\n`);
});

let runner = null;
let database = null;

function openPool(connectionString) {
  const pool = new pg.Pool({ connectionString, max: CONNECTIONS });
  const tell = (error) => process.stderr.write(`graphile-worker: ${error.message}\n`);
  // It wants errors of connections that are used heard too.
  pool.on("error", tell).on("connect", (client) => client.on("error", tell));
  return pool;
}

export async function serve({ service, key }) {
  const pgPool = openPool(service);
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  const toJob = (payload) => ({ identifier: "echo", payload, maxAttempts: MAX_ATTEMPTS });
  return serveApi(key, (tasks) => utils.addJobs(tasks.map(toJob)));
}

/** `batch` jobs are fetched at a time into its local queue; 0 for one by one. */
export async function work({ service, secret, concurrency, batch }) {
  if (runner !== null) return;
  const webhooks = new Webhooks({ secret, concurrency });
  database = openPool(service);
  const worker = {
    concurrentJobs: concurrency,
    maxPoolSize: CONNECTIONS,
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    ...(batch > 1 && { localQueue: { size: batch } }),
  };
  runner = await run({
    pgPool: database,
    preset: { worker: { ...worker, logger } },
    taskList: { echo: (payload) => webhooks.run(payload) },
    noHandleSignals: true,
  });
}

const COUNT = `SELECT count(*)::int AS open, count(*) FILTER (WHERE last_error IS NOT NULL)::int AS failed
  FROM graphile_worker.jobs`;

export function settle() {
  return untilSettled(async () => (await database.query(COUNT)).rows[0]);
}
