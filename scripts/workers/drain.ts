import { epochMs } from "../kit/durations.ts";
import { helperProcess } from "../kit/helper-process.ts";
import type { HttpMessage } from "../kit/http-messages.ts";
import { KeptConnection } from "../kit/kept-connection.ts";
import {
  claimedTasks,
  completionBody,
  requireCompleted,
  workerRequest,
} from "../kit/worker-request.ts";

/** The order of the workers: claim and complete until a claim comes back empty. */
export interface DrainJob {
  readonly port: number;
  readonly token: string;
  readonly type: string;
  /** Each has a connection of its own. */
  readonly workers: number;
  /** Tasks of one claim and of one completion. */
  readonly batch: number;
}

/** The result: every claimed task is completed, and was answered so. */
export interface DrainReport {
  readonly tasks: number;
  /** Epoch milliseconds: the first claim was sent, the last completion was answered. */
  readonly startedAt: number;
  readonly endedAt: number;
  /** Every round trip, in milliseconds; claims that came back empty are not among them. */
  readonly claimMs: readonly number[];
  readonly completeMs: readonly number[];
}

class Workers {
  /** Rejects at the first answer that is not as it should be. */
  async run(job: DrainJob): Promise<DrainReport> {
    const workers = Array.from({ length: job.workers }, () => KeptConnection.open(job.port));
    const connections = await Promise.all(workers);
    const startedAt = epochMs();
    const work = { tasks: 0, endedAt: startedAt, claimMs: [], completeMs: [] };
    try {
      await Promise.all(connections.map((connection) => claimAndComplete(connection, job, work)));
      return { ...work, startedAt };
    } finally {
      for (const connection of connections) connection[Symbol.dispose]();
    }
  }
}

interface Work {
  tasks: number;
  endedAt: number;
  readonly claimMs: number[];
  readonly completeMs: number[];
}

async function claimAndComplete(
  connection: KeptConnection,
  { token, type, batch }: DrainJob,
  work: Work,
): Promise<void> {
  const order = JSON.stringify({ types: [type], max: batch, wait_seconds: 0 });
  const claim = Buffer.from(workerRequest("claim", { token, body: order }));
  for (;;) {
    const claimed = await timed(connection, claim);
    const tasks = claimedTasks(claimed.answer);
    if (tasks.length === 0) return;
    const body = completionBody(tasks);
    const completed = await timed(connection, workerRequest("complete", { token, body }));
    requireCompleted(completed.answer, tasks.length);
    work.claimMs.push(claimed.ms);
    work.completeMs.push(completed.ms);
    work.tasks += tasks.length;
    work.endedAt = epochMs();
  }
}

async function timed(
  connection: KeptConnection,
  request: string | Uint8Array,
): Promise<{ readonly answer: HttpMessage; readonly ms: number }> {
  const sentAt = performance.now();
  const answer = await connection.ask(request);
  return { answer, ms: performance.now() - sentAt };
}

/** Workers that do nothing but claim and complete, in a process of their own. */
export class Drain extends helperProcess(import.meta, Workers) {}
