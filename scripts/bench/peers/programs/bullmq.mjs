import { Queue, Worker } from "bullmq";

import { serveApi } from "./api.mjs";
import { untilSettled } from "./settled.mjs";
import { Webhooks } from "./webhooks.mjs";

const NAME = "tasks";
// As postbackd's own: after 1, 5 and 15 minutes.
const DELAYS = [60_000, 300_000, 900_000];
const RETRIES = { attempts: DELAYS.length + 1, backoff: { type: "custom" } };
const settings = { backoffStrategy: (attempts) => DELAYS[attempts - 1] };

let worker = null;
let queue = null;

export async function serve({ service, key }) {
  const jobs = new Queue(NAME, { connection: { path: service } });
  await jobs.waitUntilReady();
  return serveApi(key, (tasks) =>
    jobs.addBulk(
      tasks.map((data) => ({ name: "echo", data, opts: { ...RETRIES, jobId: data.id } })),
    ),
  );
}

export async function work({ service, secret, concurrency }) {
  if (worker !== null) return;
  const connection = { path: service, maxRetriesPerRequest: null };
  const webhooks = new Webhooks({ secret, concurrency });
  worker = new Worker(NAME, ({ data }) => webhooks.run(data), {
    connection,
    concurrency,
    settings,
    // As it is fastest: it forgets a job that is done, with its result.
    removeOnComplete: { count: 0 },
  });
  queue = new Queue(NAME, { connection });
  worker.on("error", (error) => process.stderr.write(`BullMQ: ${error.message}\n`));
  await worker.waitUntilReady();
}

export function settle() {
  return untilSettled(async () => {
    const { failed, delayed, ...open } = await queue.getJobCounts(
      "wait",
      "active",
      "delayed",
      "failed",
    );
    return { open: open.wait + open.active, failed: failed + delayed };
  });
}
