import { countAttempt } from "../../domain/stats/work-counts.ts";
import { ATTEMPT_OVERHEAD_BYTES, textBytes } from "../common/byte-sizes.ts";
import type { AttemptRecord } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { hasEnded } from "./ended-nodes.ts";
import type { BatchSql } from "./machine/sql.ts";

/**
 * The end of attempts: a row of `outbox` goes, one of `attempts` comes, and with it the end of the delivery or its next
 * attempt. One statement for all ends of a step.
 *
 * An attempt ends while this node has it in flight. One of a node that has ended can only be interrupted, by whoever
 * comes first: what its node said later counts no more. Rows are deleted before their successors are inserted, because
 * these are made of what the deletion answers: so there is one row of each delivery at all times. What is in flight has
 * a node; it is not asked for by `started_at`, because then the whole index of what is in flight would be read. For
 * `+ 0` see "Rows by their numbers" in machine/sql.ts.
 */
const RECORD_ATTEMPTS = `
  WITH asked AS (
    SELECT * FROM unnest(
      $2::bigint[], $3::bigint[], $4::webhook_kind[], $5::bigint[], $6::attempt_outcome[], $7::int[], $8::text[],
      $9::text[], $10::float8[], $11::float8[], $12::float8[], $13::float8[], $14::text[], $15::text[], $16::text[],
      $17::delivery_end[], $18::bigint[], $19::bigint[], $20::int[]
    ) AS a (
      of_seq, of_task, of_kind, ended_at, outcome, http_status, error,
      address, dns_ms, connect_ms, tls_ms, first_byte_ms, response_excerpt, refusal_text, retry_after,
      delivery_end, next_seq, next_due_at, next_retry
    )
  ), gone AS (
    DELETE FROM outbox AS o USING asked AS a
    WHERE o.seq = ANY ($2::bigint[]) AND a.of_seq = o.seq + 0 AND a.of_task = o.task_seq + 0
      AND o.kind IS NOT DISTINCT FROM a.of_kind
      AND (o.node_seq = $1 OR o.node_seq IS NOT NULL AND a.outcome = 'interrupted' AND ${hasEnded("o.node_seq")})
    RETURNING o.*, a.*
  ), recorded AS (
    INSERT INTO attempts (
      seq, task_seq, kind, account_seq, number, retry, host, due_at, started_at, ended_at, outcome, http_status, error,
      address, dns_ms, connect_ms, tls_ms, first_byte_ms, response_excerpt, refusal_text, retry_after)
    SELECT
      seq, task_seq, kind, account_seq, number, retry, host, due_at, started_at, ended_at, outcome, http_status, error,
      address, dns_ms, connect_ms, tls_ms, first_byte_ms, response_excerpt, refusal_text, retry_after
    FROM gone
  ), ended AS (
    UPDATE deliveries AS d SET ended = g.delivery_end FROM gone AS g
    WHERE d.task_seq = g.task_seq AND d.kind = g.kind AND g.delivery_end IS NOT NULL
  ), scheduled AS (
    INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at)
    SELECT next_seq, task_seq, kind, account_seq, number + 1, next_retry, host, next_due_at
    FROM gone WHERE delivery_end IS NULL
  )
  SELECT seq FROM gone`;

/** Records the ends of attempts, each named once; what is no longer in flight as it was keeps its record. */
export async function recordAttempts(
  { sql, changes }: { readonly sql: BatchSql; readonly changes: BatchChanges },
  given: readonly AttemptRecord[],
): Promise<void> {
  // Whoever ends or erases several attempts locks them in this order.
  const records = given.toSorted((a, b) => a.attempt.seq - b.attempt.seq);
  const rows = await sql.all<{ seq: number }>(RECORD_ATTEMPTS, [
    sql.nodeSeq,
    ...columnsOf(records, () => sql.nextSeq()),
  ]);
  const gone = new Set(rows.map(({ seq }) => seq));
  for (const record of records) {
    if (!gone.has(record.attempt.seq)) continue;
    const { error, responseExcerpt, retryAfter } = record.result;
    const texts = textBytes(error, responseExcerpt, refusalText(record), retryAfter);
    changes.changed.add(record.attempt.accountId);
    const { attempt, decision } = record;
    if (decision.state === "scheduled") {
      changes.memory.laneFloors.scheduled(attempt, decision.dueAt);
    }
    countAttempt(changes, record, ATTEMPT_OVERHEAD_BYTES + texts);
  }
}

/** The parameters from $2 on. */
function columnsOf(records: readonly AttemptRecord[], nextSeq: () => number) {
  const attempts = records.map(({ attempt }) => attempt);
  const results = records.map(({ result }) => result);
  const next = records.map(({ decision }) => (decision.state === "scheduled" ? decision : null));
  return [
    attempts.map(({ seq }) => seq),
    attempts.map(({ taskSeq }) => taskSeq),
    attempts.map(({ kind }) => kind),
    records.map(({ endedAt }) => endedAt),
    results.map(({ outcome }) => outcome),
    results.map(({ httpStatus }) => httpStatus),
    results.map(({ error }) => error),
    results.map(({ address }) => address),
    results.map(({ phases }) => phases.dnsMs),
    results.map(({ phases }) => phases.connectMs),
    results.map(({ phases }) => phases.tlsMs),
    results.map(({ phases }) => phases.firstByteMs),
    results.map(({ responseExcerpt }) => responseExcerpt),
    records.map(refusalText),
    results.map(({ retryAfter }) => retryAfter),
    records.map(({ decision }) => (decision.state === "scheduled" ? null : decision.state)),
    next.map((each) => (each === null ? null : nextSeq())),
    next.map((each) => each?.dueAt ?? null),
    next.map((each) => each?.retry ?? null),
  ];
}

function refusalText({ result: { refusal } }: AttemptRecord): string | null {
  return refusal === null ? null : JSON.stringify(refusal);
}
