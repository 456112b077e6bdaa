import { isMarkDue, waitsSince } from "../../domain/stats/time-series.ts";
import { countFinished } from "../../domain/stats/work-counts.ts";
import { textBytes } from "../common/byte-sizes.ts";
import type { ExpiredPage, QueueExpiry, QueuePlace, RunEnd } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import { isHeld } from "./held-accounts.ts";
import type { BatchSql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";
import { endTasks, lanesOf } from "./task-ends.ts";

const NEWEST_MARK = `SELECT seq, served_ms AS "servedMs" FROM queue_marks ORDER BY seq DESC LIMIT 1`;

const SERVE_MARK = `UPDATE queue_marks SET served_ms = served_ms + $2 WHERE seq = $1`;

// Numbers rise with time: whatever is posted from now on has a higher one.
const INSERT_MARK = `INSERT INTO queue_marks (task_seq) VALUES ($1)`;

/** There are about a hundred marks at most. */
const OLD_MARK = `
  SELECT seq FROM (
    SELECT seq, sum(served_ms) OVER (ORDER BY seq DESC) AS sum_ms FROM queue_marks
  ) AS marks
  WHERE sum_ms >= $1
  ORDER BY seq DESC
  LIMIT 1`;

const FORGET_MARKS = `DELETE FROM queue_marks WHERE seq < $1`;

// A step looks at so many tasks, and groups of them that have none. Measured: 1,000 groups take 20 ms.
const EXAMINED_MAX = 1000;

const GROUP = `SELECT q.type, q.account_seq, q.priority FROM queue AS q WHERE q.state = 'queued'`;

/**
 * The next group of tasks of a type, an account and a priority: a seek for each way in which it may come next, however
 * many tasks there are.
 */
const NEXT_GROUP = `
  SELECT type, account_seq, priority FROM (
    (SELECT 1 AS way, p.* FROM (
      ${GROUP} AND q.type = g.type AND q.account_seq = g.account_seq AND q.priority < g.priority
      ORDER BY q.priority DESC LIMIT 1) AS p)
    UNION ALL
    (SELECT 2, a.* FROM (
      ${GROUP} AND q.type = g.type AND q.account_seq > g.account_seq
      ORDER BY q.account_seq, q.priority DESC LIMIT 1) AS a)
    UNION ALL
    (SELECT 3, t.* FROM (
      ${GROUP} AND q.type > g.type
      ORDER BY q.type, q.account_seq, q.priority DESC LIMIT 1) AS t)
  ) AS ways
  ORDER BY way LIMIT 1`;

/**
 * Walks through the queue from a place on, group by group. Within one, tasks are in the order in which they were
 * posted: the walk reads no younger one. A group without any is a row too, but for that of the place. The waiting tasks
 * of a disabled account end no sooner than they could be started again. Nothing is sorted, so the walk ends with the
 * last row that is asked for.
 */
export const OLD_TASKS = `
  WITH RECURSIVE groups (type, account_seq, priority, seq, is_place) AS (
    SELECT $1::text COLLATE "C", $2::bigint, $3::smallint, $4::bigint, true
    UNION ALL
    SELECT n.type, n.account_seq, n.priority, 0, false FROM groups AS g CROSS JOIN LATERAL (${NEXT_GROUP}) AS n
  )
  SELECT g.type, g.account_seq AS "accountId", g.priority, o.task_seq AS seq, o.runs, o.queued_mark AS "queuedMark",
    (SELECT id FROM tasks AS t WHERE t.seq = o.task_seq) AS id
  FROM groups AS g LEFT JOIN LATERAL (
    SELECT task_seq, runs, queued_mark FROM queue AS q
    WHERE q.state = 'queued' AND q.type = g.type AND q.account_seq = g.account_seq AND q.priority = g.priority
      AND q.task_seq > g.seq AND q.task_seq <= (SELECT task_seq FROM queue_marks WHERE seq = $5)
      AND NOT ${isHeld("g.account_seq")}
    ORDER BY q.task_seq
    LIMIT ${EXAMINED_MAX}
  ) AS o ON true
  WHERE o.task_seq IS NOT NULL OR NOT g.is_place
  LIMIT ${EXAMINED_MAX}`;

const BEGINNING: QueuePlace = { type: "", accountId: 0, priority: 0, seq: 0 };

/** A task that was posted before the mark. */
interface OldTask extends QueuePlace {
  readonly id: string;
  readonly runs: number;
  readonly queuedMark: number | null;
}

/** A task, or a group that has none. */
type WalkRow = OldTask | (Omit<QueuePlace, "seq"> & { readonly seq: null });

export function queueExpiryWrites(sql: BatchSql, changes: BatchChanges) {
  return {
    markQueue: each(async ({ servedMs, everyMs, queueMs }) => {
      const mark = await sql.get<{ seq: number; servedMs: number }>(NEWEST_MARK);
      if (mark !== undefined && servedMs > 0) sql.send(SERVE_MARK, [mark.seq, servedMs]);
      if (isMarkDue(mark, { servedMs, everyMs })) sql.send(INSERT_MARK, [sql.nextSeq()]);
      const old = await sql.get<{ seq: number }>(OLD_MARK, [queueMs]);
      if (old === undefined) return null;
      sql.send(FORGET_MARKS, [old.seq]);
      return old.seq;
    }),

    expireQueued: each(async (expiry) => {
      const { old, next } = await findOld(sql, expiry);
      return { ...(await expire({ sql, changes }, old, expiry.end)), next };
    }),
  } satisfies SetSteps;
}

/** Finds the next tasks that wait since the mark, and where the walk goes on. */
async function findOld(
  sql: BatchSql,
  { mark, after, max }: QueueExpiry,
): Promise<{ readonly old: readonly OldTask[]; readonly next: QueuePlace | null }> {
  const { type, accountId, priority, seq } = after ?? BEGINNING;
  const rows = await sql.all<WalkRow>(OLD_TASKS, [type, accountId, priority, seq, mark]);
  const old: OldTask[] = [];
  for (const row of rows) {
    if (row.seq === null || !waitsSince(mark, row.queuedMark)) continue;
    old.push(row);
    if (old.length === max) return { old, next: placeOf(row) };
  }
  const last = rows.at(-1);
  return { old, next: last === undefined || rows.length < EXAMINED_MAX ? null : placeOf(last) };
}

function placeOf({ type, accountId, priority, seq }: WalkRow): QueuePlace {
  return { type, accountId, priority, seq: seq ?? Number.MAX_SAFE_INTEGER };
}

/** Ends tasks that no node has claimed meanwhile. */
async function expire(
  { sql, changes }: { readonly sql: BatchSql; readonly changes: BatchChanges },
  old: readonly OldTask[],
  end: RunEnd,
): Promise<Pick<ExpiredPage, "tasks" | "lanes">> {
  const ended = await endTasks(
    sql,
    old.map(({ seq, runs }) => ({
      ...end,
      seq,
      from: ["queued"],
      nodeSeq: null,
      run: runs,
      id: null,
    })),
  );
  const bySeq = new Map(ended.map((task) => [task.seq, task]));
  const expired = old.flatMap((task) => bySeq.get(task.seq) ?? []);
  const { state, endedAt, resultText, errorText } = end;
  const bytes = textBytes(resultText, errorText);
  for (const { accountSeq } of expired) {
    countFinished(changes, { accountSeq, from: "queued", state, endedAt, bytes });
  }
  return {
    tasks: old.filter(({ seq }) => bySeq.has(seq)).map(({ id, type }) => ({ id, type })),
    lanes: expired.flatMap(lanesOf),
  };
}
