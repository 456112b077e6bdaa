import type { AttemptPhases, Refusal } from "../../domain/webhook/delivery.ts";
import type { Attempt, ClaimedAttempt } from "../store.ts";
import { toTask, type TaskRow } from "./task-row.ts";

/** Attempts, as both stores select them. */

/** An attempt that was started, with its task: its `startedAt` is the task's. */
export interface StartedRow extends Omit<ClaimedAttempt, "task" | "startedAt">, TaskRow {
  readonly sentAt: number;
}

export function toClaimedAttempt(row: StartedRow): ClaimedAttempt {
  const { seq, taskSeq, accountId, taskId, kind, number, retry, host, dueAt } = row;
  return {
    seq,
    taskSeq,
    accountId,
    taskId,
    kind,
    number,
    retry,
    host,
    dueAt,
    startedAt: row.sentAt,
    url: row.url,
    webhookSecret: row.webhookSecret,
    webhookSecretNext: row.webhookSecretNext,
    largeBytes: row.largeBytes,
    traceText: row.traceText,
    task: toTask(row),
  };
}

/** An attempt as it is recorded. */
export interface AttemptRow extends Omit<Attempt, "phases" | "refusal">, AttemptPhases {
  readonly refusalText: string | null;
}

export function toAttempt(row: AttemptRow): Attempt {
  const { dnsMs, connectMs, tlsMs, firstByteMs, refusalText, ...attempt } = row;
  const phases = { dnsMs, connectMs, tlsMs, firstByteMs };
  // Only recordAttempt writes this column.
  const refusal = refusalText === null ? null : (JSON.parse(refusalText) as Refusal);
  return { ...attempt, phases, refusal };
}
