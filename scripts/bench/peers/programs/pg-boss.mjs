import pg from "pg";
import { PgBoss } from "pg-boss";

import { serveApi } from "./api.mjs";
import { untilSettled } from "./settled.mjs";
import { Webhooks } from "./webhooks.mjs";

const NAME = "tasks";
const RETRIES = { retryLimit: 3, retryDelay: 60, retryBackoff: true };

let boss = null;
let isWorking = false;
let database = null;

async function open(service) {
  if (boss !== null) return boss;
  boss = new PgBoss({ connectionString: service, useListenNotify: true });
  boss.on("error", (error) => process.stderr.write(`pg-boss: ${error.message}\n`));
  await boss.start();
  await boss.createQueue(NAME, { ...RETRIES, notify: true });
  return boss;
}

export async function serve({ service, key }) {
  const jobs = await open(service);
  return serveApi(key, (tasks) =>
    jobs.insert(
      NAME,
      tasks.map((data) => ({ id: data.id, data })),
    ),
  );
}

/** `concurrency` jobs under way: a few workers that fetch many at a time, and end them together. */
export async function work({ service, secret, concurrency, batch }) {
  if (isWorking) return;
  isWorking = true;
  const webhooks = new Webhooks({ secret, concurrency });
  const jobs = await open(service);
  const options = {
    batchSize: batch,
    localConcurrency: Math.ceil(concurrency / batch),
    burstWhenBatchFull: true,
    perJobResults: true,
  };
  await jobs.work(NAME, options, (fetched) =>
    Promise.all(fetched.map((job) => outcome(job, webhooks))),
  );
  database = new pg.Pool({ connectionString: service, max: 1 });
}

async function outcome({ id, data }, webhooks) {
  try {
    await webhooks.run(data);
    return { id, status: "completed" };
  } catch (error) {
    return { id, status: "failed", output: { message: error.message } };
  }
}

const COUNT = `SELECT count(*) FILTER (WHERE state < 'completed')::int AS open,
  count(*) FILTER (WHERE state IN ('retry', 'failed'))::int AS failed FROM pgboss.job WHERE name = $1`;

export function settle() {
  return untilSettled(async () => (await database.query(COUNT, [NAME])).rows[0]);
}
