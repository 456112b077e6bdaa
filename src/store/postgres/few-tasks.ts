import {
  ACCOUNTS_MAX,
  fewMax,
  fewOrders,
  isByAccount,
  toListed,
  type FewOrder,
  type FewSet,
} from "../common/few-tasks.ts";
import type { PageQuery } from "../common/list-source.ts";
import type { TaskPlace } from "../store.ts";
import { named } from "./machine/named.ts";
import type { Sql } from "./machine/sql.ts";
import { IN_QUEUE_LISTED } from "./task-columns.ts";
import { searchParams } from "./task-filter.ts";

/** Searches sets of few tasks as a whole, instead of along an index that it would soon leave. */

const OPEN = `SELECT created_at AS "timeMs", task_seq AS seq FROM queue`;

function ofReady(filter = ""): string {
  return `
  SELECT t.created_at AS "timeMs", r.task_seq AS seq
  FROM (SELECT task_seq FROM ready ${filter} LIMIT @max) AS r
  CROSS JOIN LATERAL (SELECT created_at FROM tasks WHERE seq = r.task_seq LIMIT 1) AS t`;
}

/** A seek in a table for each account. */
function inTime(table: string, seq: string, filter: string): string {
  return `
    SELECT created_at AS "timeMs", ${seq} AS seq FROM ${table}
    WHERE account_seq = a.seq AND ${filter}
      AND created_at >= @createdAfter::bigint AND created_at < @createdBefore::bigint
    LIMIT @max`;
}

const LISTED_BY = {
  // Nobody may learn that another account has such a task.
  id: named(`
    SELECT created_at AS "timeMs", seq FROM tasks
    WHERE id = @id::uuid AND (@accountSeq::bigint IS NULL OR account_seq = @accountSeq)`),
  ready: named(ofReady()),
  readyOfAccount: named(ofReady("WHERE account_seq = @accountSeq::bigint")),
  waiting: named(`${OPEN} WHERE state = 'queued' LIMIT @max`),
  delayed: named(`${OPEN} WHERE state = 'delayed' LIMIT @max`),
  // A node runs them, or a worker holds them: each has an index.
  running: named(`
    (${OPEN} WHERE state = 'running' AND node_seq IS NOT NULL LIMIT @max) UNION ALL
    (${OPEN} WHERE state = 'running' AND node_seq IS NULL AND lease_id IS NOT NULL AND lease_ending IS NULL LIMIT @max)
    LIMIT @max`),
  tag: named(`
    SELECT t.* FROM accounts AS a CROSS JOIN LATERAL (${inTime("tasks", "seq", "tag = @tag::text")}) AS t
    LIMIT @max`),
  states: named(`
    SELECT t.*
    FROM accounts AS a CROSS JOIN unnest(@few::task_state[]) AS s (state) CROSS JOIN LATERAL (
      (${inTime("queue", "task_seq", `state = s.state AND ${IN_QUEUE_LISTED}`)})
      UNION ALL (${inTime("ends", "task_seq", "state = s.state")})
    ) AS t
    LIMIT @max`),
} as const satisfies Readonly<Record<FewSet, unknown>>;

const COUNT_ACCOUNTS = `SELECT count(*) AS count FROM (SELECT 1 FROM accounts LIMIT $1) AS a`;

/**
 * Lists a small set: the seqs beyond the place, in the order of the answer; null when the set is not small, or when no
 * index can tell.
 */
export async function listFewTasks(sql: Sql, of: PageQuery): Promise<readonly number[] | null> {
  const orders = fewOrders(of);
  if (orders === null || (orders.some(isByAccount) && (await hasManyAccounts(sql)))) return null;
  const listMax = fewMax(of);
  const list = ({ name, states = [] }: FewOrder): Promise<readonly TaskPlace[]> =>
    LISTED_BY[name].all(sql, { ...searchParams(of), few: states, max: listMax + 1 });
  const rows = (await Promise.all(orders.map(list))).flat();
  return rows.length > listMax ? null : toListed(rows, of);
}

async function hasManyAccounts(sql: Sql): Promise<boolean> {
  const found = await sql.get<{ count: number }>(COUNT_ACCOUNTS, [ACCOUNTS_MAX]);
  return found?.count === ACCOUNTS_MAX;
}
