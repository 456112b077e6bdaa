import type { Store } from "../store.ts";
import { isHeld, nextEnabled } from "./held-accounts.ts";
import type { Sql } from "./machine/sql.ts";
import { toUuid } from "./task-columns.ts";

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
          AND NOT ${isHeld("w.account_seq")}
        ORDER BY priority DESC, task_seq LIMIT 1
      )
      UNION ALL
      (
        SELECT ${HEAD_COLUMNS} FROM queue
        WHERE state = 'queued' AND type = $1 AND account_seq > CASE
          WHEN ${isHeld("w.account_seq")} THEN ${nextEnabled("w.account_seq")} - 1 ELSE w.account_seq
        END
        ORDER BY account_seq, priority DESC, task_seq LIMIT 1
      )
      LIMIT 1
    ) AS n
  )
  SELECT min(since) AS since FROM (SELECT * FROM heads LIMIT 1000) AS w WHERE NOT ${isHeld("w.account_seq")}`;

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

// The index has no type in it, so this read is bounded: the tasks that start next tell enough.
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
