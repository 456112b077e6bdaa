import type { LeaseEnding } from "../../domain/lease/lease.ts";
import { countFinished } from "../../domain/stats/work-counts.ts";
import type { StoredState } from "../../domain/task/task.ts";
import { FIRST_ATTEMPT } from "../../domain/webhook/delivery.ts";
import { textBytes } from "../common/large-task.ts";
import type { LaneRef, LeftWork, RunRef, TaskFinish } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql } from "./machine/sql.ts";
import { type SetSteps, each, inWaves } from "./steps.ts";
import { TypeTurns, runClaims } from "./task-claims.ts";
import { toUuid } from "./task-columns.ts";

/**
 * In a statement: the mark of a task that comes into the queue later than it was posted, and begins to wait then. Never
 * NULL, because claims look for such tasks apart (`queue_returned`).
 */
export const MARK = `(SELECT coalesce(max(seq), 0) FROM queue_checkpoints)`;

// Runs of this node, each with its fences. A task without `start_at` is queued immediately. For `+ 0` see "Rows by
// their numbers" in machine/sql.ts.
const PUT_BACK = `
  UPDATE queue AS q
  SET state = CASE WHEN a.start_at IS NULL THEN 'queued' ELSE 'delayed' END::task_state,
    start_at = coalesce(a.start_at, q.start_at), started_at = NULL, node_seq = NULL,
    runs = q.runs - a.uncounted, failures = q.failures + CASE WHEN a.start_at IS NULL THEN 0 ELSE 1 END,
    queued_checkpoint = CASE WHEN a.start_at IS NULL THEN ${MARK} ELSE q.queued_checkpoint END
  FROM unnest($2::bigint[], $3::int[], $4::uuid[], $5::bigint[], $6::int[])
    AS a (seq, of_run, of_id, start_at, uncounted)
  WHERE q.task_seq = ANY ($2::bigint[]) AND a.seq = q.task_seq + 0 AND q.state = 'running' AND q.node_seq + 0 = $1 AND (a.of_run IS NULL OR q.runs = a.of_run)
    AND (a.of_id IS NULL OR EXISTS (SELECT 1 FROM tasks AS t WHERE t.seq = a.seq AND t.id = a.of_id))
  RETURNING q.task_seq AS seq, q.account_seq AS "accountId"`;

const IS_LEFT = `
  q.state = 'running' AND q.node_seq IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM nodes AS n WHERE n.seq = q.node_seq AND n.ended_at IS NULL)`;

// A task that a worker holds has no node. Found first and then locked in their order, which all of the queue has.
const REQUEUE_LEFT = `
  WITH found AS MATERIALIZED (SELECT q.task_seq FROM queue AS q WHERE ${IS_LEFT}), left_over AS MATERIALIZED (
    SELECT q.task_seq FROM queue AS q
    WHERE q.task_seq = ANY (ARRAY (SELECT task_seq FROM found)) AND ${IS_LEFT}
    ORDER BY q.task_seq FOR UPDATE OF q
  )
  UPDATE queue AS q
  SET state = 'queued', started_at = NULL, node_seq = NULL, queued_checkpoint = ${MARK}
  FROM left_over AS l WHERE q.task_seq = l.task_seq
  RETURNING q.account_seq AS "accountId"`;

export const RELEASE_DELAYED = `
  UPDATE queue SET state = 'queued', queued_checkpoint = ${MARK}
  WHERE task_seq = ANY (ARRAY (
    SELECT task_seq FROM queue WHERE state = 'delayed' AND start_at <= $1
    ORDER BY start_at LIMIT $2::int
    FOR UPDATE SKIP LOCKED
  ))
  RETURNING account_seq AS "accountId"`;

export function taskRunWrites(sql: BatchSql, changes: BatchChanges) {
  const batch = { sql, changes };
  const bySeq = ({ seq }: RunRef) => seq;

  return {
    claimTasks(claims) {
      const claimInTurn = runClaims(sql, changes);
      const turns = new TypeTurns();
      return Promise.all(
        claims.map(async (claim) => (await turns.take(claim.type, () => claimInTurn(claim))).tasks),
      );
    },

    finishTask: (finishes) => inWaves(finishes, bySeq, (wave) => finishTasks(batch, wave)),

    retryTask: (retries) =>
      inWaves(retries, bySeq, async (wave) => {
        await putBack(batch, wave, 0);
        return wave.map(() => {});
      }),

    requeueTasks: (list) =>
      inWaves(
        list,
        (which) => ("of" in which ? which.of : which.seq),
        (wave) => requeue(batch, wave),
      ),

    releaseTask: (runs) =>
      inWaves(runs, bySeq, async (wave) => {
        await putBack(batch, wave, 1);
        return wave.map(() => {});
      }),

    releaseDelayed: each(async ({ now, max }) => {
      const rows = await sql.all<OfAccount>(RELEASE_DELAYED, [now, max]);
      for (const { accountId } of rows) changes.counts.move(accountId, "delayed", "queued");
      return rows.length;
    }),
  } satisfies SetSteps;
}

/** The tools that the steps of a batch work with. */
interface Batch {
  readonly sql: BatchSql;
  readonly changes: BatchChanges;
}

interface OfAccount {
  readonly accountId: number;
}

async function finishTasks(
  { sql, changes }: Batch,
  finishes: readonly TaskFinish[],
): Promise<readonly (readonly LaneRef[] | null)[]> {
  const ended = await endTasks(
    sql,
    finishes.map((finish): TaskEnd => ({ ...finish, from: ["running"], nodeSeq: sql.nodeSeq })),
  );
  const bySeq = new Map(ended.map((task) => [task.seq, task]));
  return finishes.map(({ seq, state, endedAt, resultText, errorText }) => {
    const task = bySeq.get(seq);
    if (task === undefined) return null;
    const bytes = textBytes(resultText, errorText);
    countFinished(changes, { accountId: task.accountId, from: "running", state, endedAt, bytes });
    const lanes = lanesOf(task);
    for (const lane of lanes) changes.memory.laneStarts.scheduled(lane, endedAt);
    return lanes;
  });
}

/**
 * Requeues running tasks, immediately or after a delay. `uncounted` is how many of their runs count no more. Returns
 * the numbers of the tasks that this node ran.
 */
async function putBack(
  { sql, changes }: Batch,
  runs: readonly (RunRef & { readonly startAt?: number })[],
  uncounted: 0 | 1,
): Promise<ReadonlySet<number>> {
  if (runs.length === 0) return new Set();
  const sorted = runs.toSorted((a, b) => a.seq - b.seq);
  const rows = await sql.all<OfAccount & { seq: number }>(PUT_BACK, [
    sql.nodeSeq,
    sorted.map(({ seq }) => seq),
    sorted.map(({ run }) => run ?? null),
    sorted.map(({ id }) => (id === undefined ? null : toUuid(id))),
    sorted.map(({ startAt }) => startAt ?? null),
    sorted.map(() => uncounted),
  ]);
  const startsAt = new Map(runs.map(({ seq, startAt }) => [seq, startAt]));
  for (const { seq, accountId } of rows) {
    const to = startsAt.get(seq) === undefined ? "queued" : "delayed";
    changes.counts.move(accountId, "running", to);
  }
  return new Set(rows.map(({ seq }) => seq));
}

async function requeue(
  batch: Batch,
  wave: readonly (RunRef | LeftWork)[],
): Promise<readonly number[]> {
  const runs = wave.flatMap((which) => ("of" in which ? [] : [which]));
  const [put, left] = await Promise.all([
    putBack(batch, runs, 0),
    runs.length < wave.length ? requeueLeft(batch) : 0,
  ]);
  return wave.map((which) => ("of" in which ? left : Number(put.has(which.seq))));
}

/** Nodes take it up together: a row counts for the node that puts it back. */
async function requeueLeft({ sql, changes }: Batch): Promise<number> {
  // This node may have passed over rows that a claim of an ended node held.
  changes.memory.forgetStarts();
  const rows = await sql.all<OfAccount>(REQUEUE_LEFT);
  for (const { accountId } of rows) changes.counts.move(accountId, "running", "queued");
  return rows.length;
}

/**
 * The end of tasks: a row of `queue` goes, one of `ends` comes, and with it, unless the task was cancelled, one of
 * `ready` and the first attempt of each webhook. One statement for all ends of a step.
 */

/** How a task ends. */
export interface TaskEnd {
  readonly seq: number;
  /** The states from which it may end so; in any other it stays as it is. */
  readonly from: readonly StoredState[];
  /** It ends only while this node runs it; undefined for any holder. */
  readonly nodeSeq?: number;
  /** It ends only in this run; undefined for any. */
  readonly run?: number | undefined;
  /** It ends only under this id; undefined for any. */
  readonly id?: string | undefined;
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
  readonly accountId: number;
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
  SELECT task_seq AS seq, account_seq AS "accountId", state AS "from", pingback_host AS "pingbackHost",
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
  // Every batch locks tasks in this order.
  const ends = given.toSorted((a, b) => a.seq - b.seq);
  const rows = await sql.all<GoneRow>(END_TASKS, [
    ends.map(({ seq }) => seq),
    ends.map(({ from }) => `{${from.join(",")}}`),
    ends.map(({ nodeSeq }) => nodeSeq ?? null),
    ends.map(({ run }) => run ?? null),
    ends.map(({ id }) => (id === undefined ? null : toUuid(id))),
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
  return rows.map(({ seq, accountId, from, pingbackHost, postbackHost, stateAfter }) => ({
    seq,
    accountId,
    from,
    hosts:
      stateAfter === "cancelled"
        ? []
        : [pingbackHost, postbackHost].filter((host) => host !== null),
  }));
}

/** The lanes that have an attempt due now. */
export function lanesOf({ accountId, hosts }: EndedTask): readonly LaneRef[] {
  return hosts.map((host) => ({ accountId, host }));
}
