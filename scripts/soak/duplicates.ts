import { z } from "zod";

import { TAKEN_BACK } from "../../src/deliver/attempt.ts";
import { DatabaseView } from "../kit/database.ts";
import type { Arrival } from "./ledger.ts";

/** An attempt as the daemon recorded it; times in epoch milliseconds. */
export const recordedAttempt = z.object({
  taskId: z.string(),
  kind: z.string(),
  number: z.number(),
  outcome: z.string(),
  httpStatus: z.number().nullable(),
  error: z.string().nullable(),
  startedAt: z.number(),
  endedAt: z.number(),
});

export type RecordedAttempt = Readonly<z.infer<typeof recordedAttempt>>;

/** The arrived webhooks, beside the records and the times when the daemon was killed. */
interface Evidence {
  readonly arrivals: readonly Arrival[];
  readonly attempts: Iterable<RecordedAttempt>;
  /** When a killed daemon was gone, in epoch milliseconds, the earliest first. */
  readonly killedAt: readonly number[];
}

/** How what came twice is explained. */
export interface Explanation {
  /** Webhooks of a delivery that the receiver had accepted before. */
  readonly duplicates: number;
  /**
   * Attempts that the receiver had accepted when the crash cut off their record: their time from arrival to kill, in
   * milliseconds. Each makes one duplicate.
   */
  readonly unrecordedMs: readonly number[];
  /** Everything that has no explanation, in words. */
  readonly faults: readonly string[];
}

/**
 * Holds every arrival against the daemon's record. An accepted webhook is recorded as delivered, or its attempt was in
 * flight at a kill and is recorded as interrupted: only that makes a duplicate. No attempt may arrive twice, arrive
 * without a record, or be recorded as delivered without having arrived.
 */
export function explainArrivals({ arrivals, attempts, killedAt }: Evidence): Explanation {
  const faults: string[] = [];
  const arrived = new Map<string, Arrival>();
  for (const arrival of arrivals) {
    const key = keyOf(arrival, arrival.attempt);
    if (arrived.has(key)) faults.push(`${key} arrived twice`);
    arrived.set(key, arrival);
  }
  const unrecordedMs: number[] = [];
  for (const attempt of attempts) {
    const key = keyOf(attempt, attempt.number);
    const arrival = arrived.get(key);
    arrived.delete(key);
    const fault = faultOf(attempt, { arrival, killedAt });
    if (fault !== null) faults.push(`${key} ${fault}`);
    else if (arrival?.status === 200 && attempt.outcome === "interrupted")
      unrecordedMs.push(killAfter(killedAt, arrival.receivedAt) - arrival.receivedAt);
  }
  for (const key of arrived.keys()) faults.push(`${key} arrived and is not on record`);
  const accepted = arrivals.filter(({ status }) => status === 200);
  const duplicates = accepted.length - new Set(accepted.map((each) => keyOf(each))).size;
  const unexplained = duplicates - unrecordedMs.length;
  if (unexplained > 0) faults.push(`${unexplained} duplicates are not explained by a crash`);
  return { duplicates, unrecordedMs, faults };
}

/** Every attempt that a database has on record as ended. */
export function* recordedAttempts(database: string): Generator<RecordedAttempt> {
  using view = new DatabaseView(database);
  const attempts = `
    SELECT t.id AS taskId, a.kind, a.number, a.outcome, a.http_status AS httpStatus, a.error,
      a.started_at AS startedAt, a.ended_at AS endedAt
    FROM attempts AS a JOIN tasks AS t ON t.seq = a.task_seq
    WHERE a.ended_at IS NOT NULL`;
  yield* view.rows(attempts, recordedAttempt);
}

function faultOf(
  attempt: RecordedAttempt,
  { arrival, killedAt }: Pick<Evidence, "killedAt"> & { readonly arrival: Arrival | undefined },
): string | null {
  const { outcome, httpStatus, error, startedAt, endedAt } = attempt;
  if (error === TAKEN_BACK.error) {
    return arrival === undefined ? null : "arrived, and is recorded as withdrawn before";
  }
  if (outcome === "interrupted") {
    const isExplained = killAfter(killedAt, startedAt) <= endedAt;
    return isExplained ? null : "was interrupted, and nobody killed the daemon";
  }
  if (arrival === undefined) return `did not arrive and is recorded as ${outcome}`;
  const expected = arrival.status === 200 ? "delivered" : "failed";
  if (outcome === expected && httpStatus === arrival.status) return null;
  const was = `was answered ${arrival.status} and is recorded as ${outcome} with ${httpStatus}`;
  // On a machine that stands still a receiver may read what has timed out.
  const readMs = arrival.receivedAt - startedAt;
  return `${was}: it was read ${readMs} ms and ended ${endedAt - startedAt} ms after its start`;
}

/** The first kill at or after a time; Infinity without one. */
function killAfter(killedAt: readonly number[], time: number): number {
  return killedAt.find((at) => at >= time) ?? Infinity;
}

function keyOf(
  { taskId, kind }: { readonly taskId: string; readonly kind: string },
  number?: number,
): string {
  return `${taskId}-${kind}${number === undefined ? "" : ` attempt ${number}`}`;
}
