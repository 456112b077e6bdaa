import { z } from "zod";

import type { HttpMessage } from "./http-messages.ts";
import { requestText, servedText } from "./request.ts";

/** A task that a worker was given. */
export interface LeasedTask {
  readonly id: string;
  readonly lease_id: string;
}

/** The operations of a worker (contract §7). */
export type WorkerOperation = "claim" | "heartbeat" | "complete" | "fail" | "release";

/** A whole request of a worker over a kept connection, as it goes over the wire. */
export function workerRequest(
  operation: WorkerOperation,
  { token, body }: { readonly token: string; readonly body: string },
): string {
  return requestText(`POST /v1/worker/${operation}`, { secret: token, body });
}

const claimAnswer = z.object({
  tasks: z.array(z.object({ id: z.string(), lease_id: z.string() })),
});

/** The tasks that a claim was answered with. Throws unless it was answered 200. */
export function claimedTasks(answer: HttpMessage): readonly LeasedTask[] {
  return claimAnswer.parse(JSON.parse(servedText(answer))).tasks;
}

/** A body that completes these tasks, each with the same small result. */
export function completionBody(tasks: readonly LeasedTask[]): string {
  const items = tasks.map(({ id, lease_id: leaseId }) => {
    return `{"id":"${id}","lease_id":"${leaseId}","result":{"pages":12,"ok":true}}`;
  });
  return `{"tasks":[${items.join(",")}]}`;
}

/** Throws unless every one of so many tasks was completed. */
export function requireCompleted(answer: HttpMessage, tasks: number): void {
  const done = servedText(answer).split('"outcome":"ok"').length - 1;
  if (done !== tasks) throw new Error(`only ${done} of ${tasks} completions were answered ok`);
}
