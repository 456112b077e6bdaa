import { ATTEMPTS_COUNTED_MAX } from "../../domain/webhook/delivery.ts";
import type { FoundDelivery } from "../store.ts";
import type { Sql } from "./machine/sql.ts";
import { DELIVERIES, SHOWN_STATE } from "./task-filter.ts";

const FIND_DELIVERIES = `
  SELECT d.task_seq AS "taskSeq", d.kind, d.host, ${SHOWN_STATE} AS state, o.started_at AS "startedAt",
    CASE WHEN o.started_at IS NULL THEN o.due_at END AS "nextDueAt", l.outcome, l.http_status AS "httpStatus", l.error,
    l.ended_at AS "endedAt", (
      SELECT count(*) FROM (
        SELECT 1 FROM attempts AS c WHERE c.task_seq = d.task_seq AND c.kind = d.kind LIMIT ${ATTEMPTS_COUNTED_MAX}
      ) AS counted
    ) AS ended
  FROM ${DELIVERIES}
  LEFT JOIN LATERAL (
    SELECT outcome, http_status, error, ended_at FROM attempts AS a
    WHERE a.task_seq = d.task_seq AND a.kind = d.kind ORDER BY a.seq DESC LIMIT 1
  ) AS l ON true
  WHERE d.task_seq = ANY($1::bigint[])
  ORDER BY d.kind`;

type Last = NonNullable<FoundDelivery["last"]>;

type LastColumns = { readonly [Name in keyof Last]: Last[Name] | null };

interface DeliveryRow extends Omit<FoundDelivery, "attempts" | "last">, LastColumns {
  readonly taskSeq: number;
  readonly startedAt: number | null;
  /** How many attempts have ended, as far as they are counted. */
  readonly ended: number;
}

/** Reads the state of the webhooks of tasks, by their seq. */
export async function findDeliveries(
  sql: Sql,
  taskSeqs: readonly number[],
): Promise<ReadonlyMap<number, readonly FoundDelivery[]>> {
  const rows = await sql.all<DeliveryRow>(FIND_DELIVERIES, [taskSeqs]);
  const byTask = new Map<number, FoundDelivery[]>();
  for (const row of rows) {
    const deliveries = byTask.get(row.taskSeq) ?? [];
    deliveries.push(toFound(row));
    byTask.set(row.taskSeq, deliveries);
  }
  return byTask;
}

function toFound(row: DeliveryRow): FoundDelivery {
  const { kind, host, state, nextDueAt, ended, startedAt } = row;
  const attempts = Math.min(ATTEMPTS_COUNTED_MAX, ended + (startedAt === null ? 0 : 1));
  return { kind, host, state, attempts, last: toLast(row), nextDueAt };
}

function toLast({ outcome, httpStatus, error, endedAt }: DeliveryRow): FoundDelivery["last"] {
  // Both are null while none has ended.
  return outcome === null || endedAt === null ? null : { outcome, httpStatus, error, endedAt };
}
