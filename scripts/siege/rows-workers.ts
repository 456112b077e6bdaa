import { ACCOUNT_FROM, MIB, NUMBERS, WORKER_FROM, job, posting, type SiegeRow } from "./row.ts";
import { CHUNKY, NUMEROUS } from "./target.ts";

const COMPLETE = "/v1/worker/complete";
const from = WORKER_FROM;

/** What a worker and an operator's own service do. */
export const ROWS_OF_WORKERS: readonly SiegeRow[] = [
  {
    name: "worker-json",
    who: "worker",
    what: "16 MiB of `1e9,` to complete, again and again",
    prepare: async (target) => {
      const secret = await target.workerToken();
      const request = posting(COMPLETE, { ...NUMBERS, bytes: 16 * MIB, secret });
      return job(target, { shape: "repeat", from, connections: 1, request });
    },
  },
  {
    name: "tiny-chunks",
    who: "worker",
    what: "32 connections of chunks of one byte, 1 MiB each",
    prepare: async (target) => {
      const secret = await target.workerToken();
      const request = posting(COMPLETE, { ...NUMBERS, element: "0,", bytes: MIB, secret });
      return job(target, { shape: "chunks", from, connections: 32, request });
    },
  },
  {
    name: "service-chunks",
    who: "service",
    what: "a service answers 32 requests at once with 1 MB in chunks of one byte",
    prepare: (target) => served(target, CHUNKY),
  },
  {
    name: "service-json",
    who: "service",
    what: "a service answers 16 requests at once with 4 MB of `1e9,`",
    prepare: (target) => served(target, NUMEROUS),
  },
];

/** An account that always has tasks for a service. */
async function served(
  target: Parameters<SiegeRow["prepare"]>[0],
  type: string,
): ReturnType<SiegeRow["prepare"]> {
  const { key } = await target.account(`uses-${type}`);
  const { head } = posting("/v1/tasks/task_post", { ...NUMBERS, bytes: 0, secret: key });
  const tasks = Array.from({ length: 100 }, () => ({ type, input: {} }));
  const bodies = [JSON.stringify(tasks)];
  const request = { head, body: null };
  return job(target, { shape: "post", from: ACCOUNT_FROM, connections: 1, request, bodies });
}
