import { ATTEMPTS_COUNTED_MAX } from "../../domain/webhook/delivery.ts";
import type { Attempt, FoundDelivery } from "../store.ts";
import type { Connection } from "./machine/connection.ts";
import { SHOWN_STATE } from "./task-filter.ts";

export const DELIVERIES_FOUND = `
  SELECT d.kind, d.host, ${SHOWN_STATE} AS state FROM deliveries AS d WHERE d.task_seq = ? ORDER BY d.kind`;

export const ATTEMPTS_FOUND = `
  SELECT count(*) FROM (SELECT 1 FROM attempts WHERE task_seq = ? AND kind = ? LIMIT ${ATTEMPTS_COUNTED_MAX})`;

/** The attempt that is scheduled or under way, if there is one, and the last that has ended. */
export const LAST_ATTEMPTS = `
  SELECT due_at AS dueAt, started_at AS startedAt, ended_at AS endedAt, outcome,
    http_status AS httpStatus, error
  FROM attempts WHERE task_seq = ? AND kind = ? ORDER BY seq DESC LIMIT 2`;

type LastAttempt = Pick<
  Attempt,
  "dueAt" | "startedAt" | "endedAt" | "outcome" | "httpStatus" | "error"
>;

/** Reads the state of a task's webhooks. */
export function foundDeliveries(
  connection: Connection,
): (taskSeq: number) => readonly FoundDelivery[] {
  const select = connection.prepare<[number], Pick<FoundDelivery, "kind" | "host" | "state">>(
    DELIVERIES_FOUND,
  );
  const count = connection.prepare<[number, string], number>(ATTEMPTS_FOUND).pluck();
  const lastOf = connection.prepare<[number, string], LastAttempt>(LAST_ATTEMPTS);

  return (taskSeq) =>
    select.all(taskSeq).map(({ kind, host, state }) => {
      const newest = state === "waiting" ? [] : lastOf.all(taskSeq, kind);
      const isScheduled = newest[0] !== undefined && newest[0].startedAt === null;
      const counted = newest.length === 0 ? 0 : (count.get(taskSeq, kind) ?? 0);
      return {
        kind,
        host,
        state,
        attempts: counted - (isScheduled ? 1 : 0),
        last: newest.map(toLast).find((each) => each !== null) ?? null,
        nextDueAt: isScheduled ? (newest[0]?.dueAt ?? null) : null,
      };
    });
}

function toLast({ outcome, httpStatus, error, endedAt }: LastAttempt): FoundDelivery["last"] {
  // Both are null while it has not ended.
  return outcome === null || endedAt === null ? null : { outcome, httpStatus, error, endedAt };
}
