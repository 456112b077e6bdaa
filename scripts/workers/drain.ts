import { z } from "zod";

import { HelperProcess, answerMessages } from "../kit/helper-process.ts";
import type { HttpMessage } from "../kit/http-messages.ts";
import { KeptConnection } from "../kit/kept-connection.ts";
import {
  claimedTasks,
  completionBody,
  requireCompleted,
  workerRequest,
} from "../kit/worker-request.ts";

const drainJob = z.object({
  port: z.number(),
  token: z.string(),
  type: z.string(),
  /** Each has a connection of its own. */
  workers: z.number(),
  /** Tasks of one claim and of one completion. */
  batch: z.number(),
});

/** What workers are to do: claim and complete until a claim comes back empty. */
export type DrainJob = Readonly<z.infer<typeof drainJob>>;

const drainReport = z.object({
  tasks: z.number(),
  /** Epoch milliseconds: the first claim was sent, the last completion was answered. */
  startedAt: z.number(),
  endedAt: z.number(),
  /** Every round trip, in milliseconds; claims that came back empty are not among them. */
  claimMs: z.array(z.number()),
  completeMs: z.array(z.number()),
});

/** What workers did: all that they claimed is completed, and was answered so. */
export type DrainReport = Readonly<z.infer<typeof drainReport>>;

/** Workers that do nothing but claim and complete, in a process of their own. */
export class Drain {
  readonly #helper = new HelperProcess(new URL(import.meta.url));

  get pid(): number {
    return this.#helper.pid;
  }

  /** Rejects at the first answer that is not as it should be. */
  async run(job: DrainJob): Promise<DrainReport> {
    const answer = z.union([drainReport, z.object({ error: z.string() })]);
    const report = answer.parse(await this.#helper.ask(job));
    if ("error" in report) throw new Error(report.error);
    return report;
  }

  [Symbol.dispose](): void {
    this.#helper[Symbol.dispose]();
  }
}

async function drain(job: DrainJob): Promise<DrainReport> {
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

function epochMs(): number {
  return performance.timeOrigin + performance.now();
}

if (import.meta.main) {
  answerMessages((message) => {
    return drain(drainJob.parse(message)).catch((error) => ({ error: String(error) }));
  });
}
