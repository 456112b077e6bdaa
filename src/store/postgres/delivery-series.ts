import { countNewSeries } from "../../domain/stats/work-counts.ts";
import {
  FIRST_ATTEMPT,
  type DeliveryKind,
  type EndedDeliveryState,
} from "../../domain/webhook/delivery.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql } from "./machine/sql.ts";

/** A delivery that has ended. */
export interface EndedDelivery {
  readonly accountSeq: number;
  readonly taskSeq: number;
  readonly kind: DeliveryKind;
}

/** A delivery that was begun anew: its host, and the state in which it had ended. */
export interface BegunDelivery extends EndedDelivery {
  readonly host: string;
  readonly state: EndedDeliveryState;
}

// Locked first: whoever begins the same delivery at the same time finds that it has not ended any more.
const BEGIN_SERIES = `
  WITH found AS (
    SELECT a.account_seq, d.task_seq, d.kind, d.host, d.ended, a.next_seq
    FROM unnest($1::bigint[], $2::webhook_kind[], $3::bigint[], $4::bigint[])
      AS a (task_seq, kind, account_seq, next_seq)
    JOIN deliveries AS d ON d.task_seq = a.task_seq AND d.kind = a.kind
    WHERE d.ended IS NOT NULL
    ORDER BY d.task_seq, d.kind
    FOR UPDATE OF d
  ), begun AS (
    UPDATE deliveries AS d SET ended = NULL FROM found AS f WHERE d.task_seq = f.task_seq AND d.kind = f.kind
  ), sent AS (
    INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at)
    SELECT next_seq, task_seq, kind, account_seq, ${FIRST_ATTEMPT.number}, ${FIRST_ATTEMPT.retry}, host, $5
    FROM found
  )
  SELECT account_seq AS "accountSeq", task_seq AS "taskSeq", kind, host, ended AS state FROM found`;

/**
 * Begins a fresh series for each of these deliveries that still has ended: its first attempt is due at `now`. Answers
 * those that it began.
 */
export async function beginSeries(
  { sql, changes }: { readonly sql: BatchSql; readonly changes: BatchChanges },
  deliveries: readonly EndedDelivery[],
  now: number,
): Promise<readonly BegunDelivery[]> {
  if (deliveries.length === 0) return [];
  const begun = await sql.all<BegunDelivery>(BEGIN_SERIES, [
    deliveries.map(({ taskSeq }) => taskSeq),
    deliveries.map(({ kind }) => kind),
    deliveries.map(({ accountSeq }) => accountSeq),
    deliveries.map(() => sql.nextSeq()),
    now,
  ]);
  for (const delivery of begun) {
    changes.changed.add(delivery.accountSeq);
    countNewSeries(changes, delivery);
  }
  return begun;
}
