import type { AttackJob } from "./attack-job.ts";
import { ACCOUNT_FROM, MIB, NUMBERS, WORKER_FROM, job, posting, type SiegeRow } from "./row.ts";
import { CHUNKY, NUMEROUS, type Target } from "./target.ts";

const COMPLETE = "/v1/worker/complete";
const from = WORKER_FROM;

/** Attacks of a worker and of an operator's own service. */
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
    prepare: (target) => served(target, { type: CHUNKY, tasks: 32 }),
  },
  {
    name: "service-json",
    who: "service",
    what: "a service answers 16 requests at once with 4 MB of `1e9,`",
    prepare: (target) => served(target, { type: NUMEROUS, tasks: 16 }),
  },
];

/** An account that posts as many tasks for a service as run at once. */
async function served(
  target: Target,
  { type, tasks }: { readonly type: string; readonly tasks: number },
): Promise<AttackJob> {
  const { key } = await target.account(`uses-${type}`);
  const { head } = posting("/v1/tasks/task_post", { ...NUMBERS, bytes: 0, secret: key });
  const bodies = [JSON.stringify(Array<object>(tasks).fill({ type, input: {} }))];
  const request = { head, body: null };
  return job(target, { shape: "post", from: ACCOUNT_FROM, connections: 1, request, bodies });
}
