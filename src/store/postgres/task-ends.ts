import type { LeaseEnding } from "../../domain/lease/lease.ts";
import type { StoredState } from "../../domain/task/task.ts";
import { FIRST_ATTEMPT } from "../../domain/webhook/delivery.ts";
import type { LaneRef } from "../store.ts";
import type { BatchSql } from "./machine/sql.ts";

/**
 * The end of tasks: a row of `queue` goes, one of `ends` comes, and with it, unless the task was cancelled, one of
 * `ready` and the first attempt of each webhook. One statement for all ends of a step.
 */

/** How a task ends. */
export interface TaskEnd {
  readonly seq: number;
  /** The states from which it may end so; in any other it stays as it is. */
  readonly from: readonly StoredState[];
  /** It ends only while this node runs it: null for whoever does. */
  readonly nodeSeq: number | null;
  /** It ends only in this run; null for any. */
  readonly run: number | null;
  /** It ends only under this id; null for any. */
  readonly id: string | null;
  readonly state: "completed" | "failed" | "cancelled";
  readonly code: number;
  readonly resultText: string | null;
  readonly errorText: string | null;
  readonly endedAt: number;
  readonly expiresAt: number;
  readonly eraseAt: number;
  /** The end of its lease; undefined leaves that to what the task's end says. */
  readonly lease?: { readonly ending: LeaseEnding; readonly losses: number };
}

/** A task that has ended. */
export interface EndedTask {
  readonly seq: number;
  readonly accountSeq: number;
  /** The state that it was in before. */
  readonly from: StoredState;
  /** Those to which an attempt is due now. */
  readonly hosts: readonly string[];
}

// A lease that is held of a cancelled task, or that ran out and might be revived, ends with it.
const LEASE_ENDING = `
  CASE WHEN ending_after IS NOT NULL THEN ending_after
    WHEN state_after = 'cancelled' AND lease_id IS NOT NULL AND coalesce(lease_ending, 'expired') = 'expired'
    THEN 'cancelled' ELSE lease_ending END`;

// For `+ 0` see "Rows by their numbers" in machine/sql.ts.
const END_TASKS = `
  WITH asked AS (
    SELECT * FROM unnest(
      $1::bigint[], $2::text[], $3::bigint[], $4::int[], $5::uuid[], $6::task_state[], $7::int[], $8::text[], $9::text[],
      $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::lease_ending[], $16::int[]
    ) AS a (
      seq, from_states, of_node, of_run, of_id, state_after, code, result_text, error_text,
      ended_at, expires_at, erase_at, pingback_seq, postback_seq, ending_after, losses_after
    )
  ), gone AS (
    DELETE FROM queue AS q USING asked AS a
    WHERE q.task_seq = ANY ($1::bigint[]) AND a.seq = q.task_seq + 0 AND q.state = ANY (a.from_states::task_state[])
      AND (a.of_node IS NULL OR q.node_seq = a.of_node) AND (a.of_run IS NULL OR q.runs = a.of_run)
      AND (a.of_id IS NULL OR EXISTS (SELECT 1 FROM tasks AS t WHERE t.seq = a.seq AND t.id = a.of_id))
    RETURNING q.*, a.*
  ), ended AS (
    INSERT INTO ends (
      task_seq, account_seq, state, status_code, created_at, start_at, started_at, completed_at, expires_at, erase_at,
      runs, failures, result_text, error_text, lease_id, worker_seq, claimed_at, lease_ms, deadline_at, lease_until,
      lease_ending, losses)
    SELECT task_seq, account_seq, state_after, code, created_at, start_at, started_at, ended_at, expires_at, erase_at,
      runs, failures, result_text, error_text, lease_id, worker_seq, claimed_at, lease_ms, deadline_at, lease_until,
      ${LEASE_ENDING}, coalesce(losses_after, losses)
    FROM gone
  ), collectable AS (
    INSERT INTO ready (account_seq, completed_at, task_seq, type, tag)
    SELECT account_seq, ended_at, task_seq, type, tag FROM gone WHERE state_after <> 'cancelled'
  ), sent AS (
    INSERT INTO outbox (seq, task_seq, kind, account_seq, number, retry, host, due_at)
    SELECT w.seq, task_seq, w.kind::webhook_kind, account_seq, ${FIRST_ATTEMPT.number}, ${FIRST_ATTEMPT.retry}, w.host,
      ended_at
    FROM gone CROSS JOIN LATERAL (
      VALUES ('pingback', pingback_host, pingback_seq), ('postback', postback_host, postback_seq)
    ) AS w (kind, host, seq)
    WHERE w.host IS NOT NULL AND state_after <> 'cancelled'
  )
  SELECT task_seq AS seq, account_seq AS "accountSeq", state AS "from", pingback_host AS "pingbackHost",
    postback_host AS "postbackHost", state_after AS "stateAfter"
  FROM gone`;

interface GoneRow extends Omit<EndedTask, "hosts"> {
  readonly pingbackHost: string | null;
  readonly postbackHost: string | null;
  readonly stateAfter: StoredState;
}

/** Ends those tasks that may end so; answers these. Each task is named once. */
export async function endTasks(
  sql: BatchSql,
  given: readonly TaskEnd[],
): Promise<readonly EndedTask[]> {
  if (given.length === 0) return [];
  // Whoever changes several tasks locks them in this order.
  const ends = given.toSorted((a, b) => a.seq - b.seq);
  const rows = await sql.all<GoneRow>(END_TASKS, [
    ends.map(({ seq }) => seq),
    ends.map(({ from }) => `{${from.join(",")}}`),
    ends.map(({ nodeSeq }) => nodeSeq),
    ends.map(({ run }) => run),
    ends.map(({ id }) => id),
    ends.map(({ state }) => state),
    ends.map(({ code }) => code),
    ends.map(({ resultText }) => resultText),
    ends.map(({ errorText }) => errorText),
    ends.map(({ endedAt }) => endedAt),
    ends.map(({ expiresAt }) => expiresAt),
    ends.map(({ eraseAt }) => eraseAt),
    ends.map(() => sql.nextSeq()),
    ends.map(() => sql.nextSeq()),
    ends.map(({ lease }) => lease?.ending ?? null),
    ends.map(({ lease }) => lease?.losses ?? null),
  ]);
  return rows.map(({ seq, accountSeq, from, pingbackHost, postbackHost, stateAfter }) => ({
    seq,
    accountSeq,
    from,
    hosts:
      stateAfter === "cancelled"
        ? []
        : [pingbackHost, postbackHost].filter((host) => host !== null),
  }));
}

/** The lanes that have an attempt due now. */
export function lanesOf({ accountSeq, hosts }: EndedTask): readonly LaneRef[] {
  return hosts.map((host) => ({ accountId: accountSeq, host }));
}
