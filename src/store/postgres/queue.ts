import { waitsSince } from "../../domain/stats/time-series.ts";
import { countFinished } from "../../domain/stats/work-counts.ts";
import { textBytes } from "../common/large-task.ts";
import type { ExpiredPage, QueueExpiry, QueuePlace, RunEnd, Store } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, ReadSql, Sql } from "./machine/sql.ts";
import { type NodeMemory, partColumns, waitsFromStart, waitsAnywhere } from "./scan-starts.ts";
import { type SetSteps, each } from "./steps.ts";
import { isSuspended, nextEnabled, toUuid } from "./task-columns.ts";
import { endTasks, lanesOf } from "./task-runs.ts";

const HEAD_COLUMNS = `task_seq, account_seq, priority, greatest(created_at, start_at) AS since`;

/**
 * A loose index scan: of each enabled account that waits, the first task of each priority, with a seek or two for each,
 * and one for each run of disabled accounts. Beyond the first 1,000 accounts it is an estimate, which is good enough:
 * accounts take turns, so the head of one account's queue has not waited much longer than the head of another's.
 */
const OLDEST_QUEUED = `
  WITH RECURSIVE heads (task_seq, account_seq, priority, since) AS (
    (
      SELECT ${HEAD_COLUMNS} FROM queue
      WHERE state = 'queued' AND type = $1
      ORDER BY account_seq, priority DESC, task_seq LIMIT 1
    )
    UNION ALL
    SELECT n.* FROM heads AS w CROSS JOIN LATERAL (
      (
        SELECT ${HEAD_COLUMNS} FROM queue
        WHERE state = 'queued' AND type = $1 AND account_seq = w.account_seq AND priority < w.priority
          AND NOT ${isSuspended("w.account_seq")}
        ORDER BY priority DESC, task_seq LIMIT 1
      )
      UNION ALL
      (
        SELECT ${HEAD_COLUMNS} FROM queue
        WHERE state = 'queued' AND type = $1 AND account_seq > CASE
          WHEN ${isSuspended("w.account_seq")} THEN ${nextEnabled("w.account_seq")} - 1 ELSE w.account_seq
        END
        ORDER BY account_seq, priority DESC, task_seq LIMIT 1
      )
      LIMIT 1
    ) AS n
  )
  SELECT min(since) AS since FROM (SELECT * FROM heads LIMIT 1000) AS w WHERE NOT ${isSuspended("w.account_seq")}`;

// A loose index scan: one seek for each type, however many tasks wait.
const QUEUED_TYPES = `
  WITH RECURSIVE types (type) AS (
    (SELECT type FROM queue WHERE state = 'queued' ORDER BY type LIMIT 1)
    UNION ALL
    SELECT n.type FROM types AS w CROSS JOIN LATERAL (
      SELECT type FROM queue WHERE state = 'queued' AND type > w.type ORDER BY type LIMIT 1
    ) AS n
  )
  SELECT type FROM types`;

// The index has no type in it, so this read is bounded: the tasks that start next are sufficient.
export const DELAYED_TYPES = `
  SELECT DISTINCT type FROM (
    SELECT type FROM queue WHERE state = 'delayed' ORDER BY start_at LIMIT 1000
  ) AS w`;

const FIND_OPEN = `
  SELECT t.id FROM tasks AS t JOIN queue AS q ON q.task_seq = t.seq WHERE t.id = ANY($1::uuid[])`;

/** Counts no further than necessary. */
const COUNT_QUEUED = `
  SELECT a.type, (
    SELECT count(*) FROM (
      SELECT 1 FROM queue WHERE state = 'queued' AND type = a.type LIMIT $2::int
    ) AS w
  ) AS counted
  FROM unnest($1::text[]) AS a (type)`;

/** There are few: the concurrency of a type bounds its runs. Nodes run some of them, workers hold the others. */
const COUNT_RUNNING = `
  SELECT type, count(*) AS running
  FROM (
    SELECT type FROM queue WHERE state = 'running' AND node_seq IS NOT NULL
    UNION ALL
    SELECT type FROM queue
    WHERE lease_id IS NOT NULL AND lease_ending IS NULL AND state = 'running' AND node_seq IS NULL
  ) AS w
  GROUP BY type`;

// A seek for each part of the accounts of each type.
export const FIND_WAITING_TYPES = `
  SELECT DISTINCT s.type
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[]) AS s (type, above, up_to, start)
  WHERE CASE WHEN s.start IS NULL THEN ${waitsAnywhere("s.type")} ELSE ${waitsFromStart("s.type")} END`;

/** Types with queued tasks that other nodes left, looked for once a second. */
export function waitingTypeReads(sql: ReadSql, { queueStarts }: NodeMemory) {
  return {
    async findWaitingTypes(types) {
      const parts = types.flatMap((type) =>
        queueStarts.partsOf(type).map((part) => ({ type, part })),
      );
      const rows = await sql.all<{ type: string }>(FIND_WAITING_TYPES, [
        parts.map(({ type }) => type),
        ...partColumns(parts.map(({ part }) => part)),
      ]);
      const waiting = new Set(rows.map(({ type }) => type));
      return types.filter((type) => waiting.has(type));
    },
  } satisfies Partial<Store>;
}

export function taskQueueReads(sql: Sql) {
  return {
    async findOldestQueued(types) {
      const oldest = await Promise.all(types.map((type) => findOldest(sql, type)));
      const waiting = oldest.filter((since) => since !== null);
      return waiting.length === 0 ? null : Math.min(...waiting);
    },

    async listQueuedTypes() {
      const [queued, delayed] = await Promise.all([
        sql.all<{ type: string }>(QUEUED_TYPES),
        sql.all<{ type: string }>(DELAYED_TYPES),
      ]);
      return [...new Set([...queued, ...delayed].map(({ type }) => type))];
    },

    async findEndedTasks({ ids }) {
      const open = await sql.all<{ id: string }>(FIND_OPEN, [ids.map(toUuid)]);
      const openIds = new Set(open.map(({ id }) => id));
      return ids.filter((id) => !openIds.has(id));
    },
  } satisfies Partial<Store>;
}

export function typeWorkReads(sql: Sql) {
  return {
    async listTypeWork({ types, waitingMax }) {
      const [running, queued] = await Promise.all([
        sql.all<{ type: string; running: number }>(COUNT_RUNNING),
        sql.all<{ type: string; counted: number }>(COUNT_QUEUED, [types, waitingMax + 1]),
      ]);
      const runningOf = new Map(running.map((row) => [row.type, row.running]));
      const countedOf = new Map(queued.map(({ type, counted }) => [type, counted]));
      return await Promise.all(
        types.map(async (type) => {
          const counted = countedOf.get(type) ?? 0;
          return {
            type,
            running: runningOf.get(type) ?? 0,
            waiting: Math.min(counted, waitingMax),
            isMoreWaiting: counted > waitingMax,
            oldestAt: counted === 0 ? null : await findOldest(sql, type),
          };
        }),
      );
    },
  } satisfies Partial<Store>;
}

/** When the longest-waiting task of a type was queued; null when none waits. */
async function findOldest(sql: Sql, type: string): Promise<number | null> {
  const row = await sql.get<{ since: number | null }>(OLDEST_QUEUED, [type]);
  return row?.since ?? null;
}

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
 * posted: the walk reads no younger one. A group without tasks is also a row, except the group of the position. The
 * waiting tasks of a disabled account end no sooner than they could be started again. Nothing is sorted, so the walk
 * ends with the last row that is asked for.
 */
export const OLD_TASKS = `
  WITH RECURSIVE groups (type, account_seq, priority, seq, is_place) AS (
    SELECT $1::text COLLATE "C", $2::bigint, $3::smallint, $4::bigint, true
    UNION ALL
    SELECT n.type, n.account_seq, n.priority, 0, false FROM groups AS g CROSS JOIN LATERAL (${NEXT_GROUP}) AS n
  )
  SELECT g.type, g.account_seq AS "accountId", g.priority, o.task_seq AS seq, o.runs, o.queued_checkpoint AS "queuedMark",
    (SELECT id FROM tasks AS t WHERE t.seq = o.task_seq) AS id
  FROM groups AS g LEFT JOIN LATERAL (
    SELECT task_seq, runs, queued_checkpoint FROM queue AS q
    WHERE q.state = 'queued' AND q.type = g.type AND q.account_seq = g.account_seq AND q.priority = g.priority
      AND q.task_seq > g.seq AND q.task_seq <= (SELECT task_seq FROM queue_checkpoints WHERE seq = $5)
      AND NOT ${isSuspended("g.account_seq")}
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
    old.map(({ seq, runs }) => ({ ...end, seq, from: ["queued"], run: runs })),
  );
  const { state, endedAt, resultText, errorText } = end;
  const bytes = textBytes(resultText, errorText);
  for (const { accountId } of ended) {
    countFinished(changes, { accountId, from: "queued", state, endedAt, bytes });
  }
  const seqs = new Set(ended.map(({ seq }) => seq));
  return {
    tasks: old.filter(({ seq }) => seqs.has(seq)).map(({ id, type }) => ({ id, type })),
    lanes: ended.flatMap(lanesOf),
  };
}
