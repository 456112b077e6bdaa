import { entityTag } from "../../domain/id.ts";
import { countCancelled, countCollected } from "../../domain/stats/work-counts.ts";
import { type TaskProgress, parseProgress } from "../../domain/task/run.ts";
import {
  type OpenState,
  STATE_CODES,
  type StoredState,
  type TaskKey,
  decideCancel,
  openStateOf,
} from "../../domain/task/task.ts";
import { READ_BYTES_MAX, envelopeBytes } from "../common/large-task.ts";
import { type TaskRow, toSummary, toTask } from "../common/row.ts";
import { ON_POSTGRES } from "../sql/task-columns.ts";
import type { FoundTask, RunProgress, Store, TaskCancel, TaskLook } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { type SetSteps, each } from "./steps.ts";
import { toUuid } from "./task-columns.ts";
import { PostStep } from "./task-posts.ts";
import { type TaskEnd, endTasks } from "./task-runs.ts";

// In the order of their numbers, as every batch locks them.
const COLLECT_TASKS = `
  WITH asked AS MATERIALIZED (
    SELECT r.task_seq
    FROM unnest($1::uuid[], $2::bigint[]) AS a (id, account_seq)
      JOIN tasks AS t ON t.id = a.id AND t.account_seq = a.account_seq
      JOIN ready AS r ON r.task_seq = t.seq
    ORDER BY r.task_seq FOR UPDATE OF r
  )
  DELETE FROM ready AS r USING asked WHERE r.task_seq = asked.task_seq
  RETURNING r.account_seq AS "accountId"`;

const FIND_STATE = `
  SELECT t.seq, q.state AS open, e.state AS ended
  FROM tasks AS t ${ON_POSTGRES.joins}
  WHERE t.id = $1 AND t.account_seq = $2`;

// For `+ 0` see "Rows by their numbers" in machine/sql.ts.
const FIND_OPEN = `
  SELECT q.task_seq AS seq, t.id, q.state
  FROM tasks AS t JOIN queue AS q ON t.seq = q.task_seq + 0
  WHERE t.id = ANY($1::uuid[]) AND q.task_seq = ANY (ARRAY (SELECT seq FROM tasks WHERE id = ANY($1::uuid[])))
    AND t.account_seq = $2
  ORDER BY q.task_seq + 0 FOR UPDATE OF q`;

const IS_LARGE = `${ON_POSTGRES.textBytes} > ${READ_BYTES_MAX}`;

function unlessLarge(column: string, name: string): string {
  return `CASE WHEN NOT ${IS_LARGE} THEN ${column} END AS "${name}"`;
}

/** A task with its texts; a large one without them. */
const FIND_TASK = `
  SELECT ${ON_POSTGRES.head}, ${ON_POSTGRES.isReady} AS "isReady", ${IS_LARGE} AS "isLarge",
    ${unlessLarge("t.data_text", "dataText")}, ${unlessLarge("t.input_text", "inputText")},
    ${unlessLarge("e.result_text", "resultText")}, ${unlessLarge("e.error_text", "errorText")}
  FROM tasks AS t ${ON_POSTGRES.joins}
  WHERE t.id = $1 AND t.account_seq = $2`;

const FIND_LARGE_TASK = `
  SELECT ${ON_POSTGRES.all}, ${ON_POSTGRES.isReady} AS "isReady", q.progress_text AS "progressText"
  FROM tasks AS t ${ON_POSTGRES.joins}
  WHERE t.id = $1 AND t.account_seq = $2`;

interface FoundState {
  readonly seq: number;
  /** Its state while it has not ended. */
  readonly open: StoredState | null;
  readonly ended: StoredState | null;
}

export function taskWrites(sql: BatchSql, changes: BatchChanges) {
  return {
    insertTasks: (posts) => new PostStep(sql, changes).insert(posts),
    ...changeWrites(sql, changes),
  } satisfies SetSteps;
}

function changeWrites(sql: BatchSql, changes: BatchChanges) {
  const batch = { sql, changes };

  return {
    async collectTask(keys) {
      const rows = await sql.all<Pick<TaskKey, "accountId">>(COLLECT_TASKS, [
        keys.map(({ id }) => toUuid(id)),
        keys.map(({ accountId }) => accountId),
      ]);
      for (const { accountId } of rows) countCollected(changes, accountId);
      return keys.map(() => {});
    },

    cancelTask: each(async ({ accountId, id, ...order }) => {
      const found = await sql.get<FoundState>(FIND_STATE, [toUuid(id), accountId]);
      const outcome = decideCancel(found?.open ?? found?.ended ?? undefined);
      if (found === undefined || outcome !== "cancelled") return outcome;
      const cancelled = await cancel(batch, [found.seq], order);
      if (cancelled.has(found.seq)) return outcome;
      // It has ended between the two statements: another node may have cancelled it, too.
      const now = await sql.get<FoundState>(FIND_STATE, [toUuid(id), accountId]);
      return decideCancel(now?.open ?? now?.ended ?? undefined);
    }),

    cancelTasks: each(async ({ accountId, ids, states, ...order }) => {
      const found = await sql.all<{ seq: number; id: string; state: StoredState }>(FIND_OPEN, [
        ids.map(toUuid),
        accountId,
      ]);
      const bySeq = new Map(
        found.flatMap(({ seq, id, state }) => {
          const open = openStateOf(state);
          return open !== null && states.includes(open) ? [[seq, { id, open }] as const] : [];
        }),
      );
      const cancelled: Record<OpenState, string[]> = { queued: [], running: [] };
      await cancel(batch, [...bySeq.keys()], order);
      for (const { id, open } of bySeq.values()) cancelled[open].push(id);
      return cancelled;
    }),
  } satisfies SetSteps;
}

/** Cancels the tasks that have not ended; returns the previous state of each. */
async function cancel(
  { sql, changes }: { readonly sql: BatchSql; readonly changes: BatchChanges },
  seqs: readonly number[],
  { cancelledAt, expiresAt, eraseAt }: Omit<TaskCancel, "id" | "accountId">,
): Promise<ReadonlyMap<number, StoredState>> {
  const ended = await endTasks(
    sql,
    seqs.map((seq): TaskEnd => ({
      seq,
      from: ["delayed", "queued", "running"],
      state: "cancelled",
      code: STATE_CODES.cancelled,
      resultText: null,
      errorText: null,
      endedAt: cancelledAt,
      expiresAt,
      eraseAt,
    })),
  );
  for (const { accountId, from } of ended) {
    countCancelled(changes, { accountId, from, cancelledAt });
  }
  return new Map(ended.map(({ seq, from }) => [seq, from]));
}

export function taskReads(sql: Sql) {
  return {
    /** Finds a task that is not large; returns `large` for a large task. */
    async findTask({ accountId, id }: TaskKey): Promise<FoundTask | "large" | null> {
      const row = await sql.get<TaskRow & { isReady: boolean; isLarge: boolean }>(FIND_TASK, [
        toUuid(id),
        accountId,
      ]);
      if (row === undefined) return null;
      return row.isLarge ? "large" : { task: toTask(row), isReady: row.isReady };
    },
  };
}

interface LargeRow extends TaskRow {
  readonly isReady: boolean;
  readonly progressText: string | null;
}

export function largeTaskReads(sql: Sql) {
  return {
    /** Finds a task and its envelope; null for an unknown id and for another account's task alike. */
    async findLargeTask({ accountId, id, progress }: TaskLook): Promise<FoundTask | null> {
      const row = await sql.get<LargeRow>(FIND_LARGE_TASK, [toUuid(id), accountId]);
      if (row === undefined) return null;
      const bytes = envelopeBytes(row, progress ?? toProgress(row.progressText));
      const task = { ...toSummary(row), dataText: "{}", ...NO_TEXTS };
      return { task, isReady: row.isReady, envelope: { bytes, tag: entityTag(bytes) } };
    },
  };
}

const NO_TEXTS = { inputText: null, resultText: null, errorText: null };

// Every batch locks tasks in this order.
const NOTE_PROGRESS = `
  WITH told AS MATERIALIZED (
    SELECT q.task_seq, a.progress_text
    FROM unnest($2::uuid[], $3::text[], $4::int[], $5::text[]) AS a (id, progress_text, of_run, of_lease)
      JOIN tasks AS t ON t.id = a.id JOIN queue AS q ON q.task_seq = t.seq
    WHERE q.state = 'running'
      AND (q.node_seq = $1 AND q.runs = a.of_run OR q.node_seq IS NULL AND q.lease_id = a.of_lease)
    ORDER BY q.task_seq FOR UPDATE OF q
  )
  UPDATE queue AS q SET progress_text = told.progress_text FROM told WHERE q.task_seq = told.task_seq`;

const FIND_PROGRESS = `
  SELECT t.id, q.progress_text AS "progressText"
  FROM tasks AS t JOIN queue AS q ON q.task_seq = t.seq
  WHERE t.id = ANY($1::uuid[]) AND q.state = 'running' AND q.progress_text IS NOT NULL`;

export function progressWrites(sql: BatchSql) {
  return {
    async noteProgress(lists) {
      const byRun = new Map(lists.flat().map((each) => [JSON.stringify([each.id, each.by]), each]));
      const newest = [...byRun.values()];
      if (newest.length > 0) {
        sql.send(NOTE_PROGRESS, [
          sql.nodeSeq,
          newest.map(({ id }) => toUuid(id)),
          newest.map(({ progress }) => JSON.stringify(progress)),
          newest.map(({ by }) => ("run" in by ? by.run : null)),
          newest.map(({ by }) => ("run" in by ? null : by.leaseId)),
        ]);
      }
      return lists.map(() => {});
    },
  } satisfies SetSteps;
}

export function progressReads(sql: Sql) {
  return {
    async findProgress({ ids }) {
      const rows = await sql.all<{ id: string; progressText: string }>(FIND_PROGRESS, [
        ids.map(toUuid),
      ]);
      return rows.flatMap(({ id, progressText }): readonly RunProgress[] => {
        const progress = toProgress(progressText);
        return progress === null ? [] : [{ id, progress }];
      });
    },
  } satisfies Partial<Store>;
}

/** Reads the column that noteProgress writes; null if a run has reported nothing. */
export function toProgress(progressText: string | null): TaskProgress | null {
  return progressText === null ? null : parseProgress(JSON.parse(progressText));
}
