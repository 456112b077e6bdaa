import type { SearchedState, TaskSearch } from "../../domain/task/task-search.ts";
import type { StoredState } from "../../domain/task/task.ts";
import type { AccountSearch, PageQuery } from "../common/list.ts";
import { STORED_STATES } from "../common/row.ts";
import type { TaskPlace } from "../store.ts";
import { type Statement, eachDialect, statement } from "./statement.ts";
import { IN_QUEUE_LISTED } from "./task-columns.ts";
import { searchValues } from "./task-search.ts";
import { all, get, together, type UseCase } from "./use-case.ts";

/** Reads sets of tasks that are known to be small entirely, and sorts them, instead of walking a large index. */

/** A set that is small in most databases, and has an index. */
type FewSet =
  | "id"
  | "ready"
  | "readyOfAccount"
  | "waiting"
  | "delayed"
  | "running"
  /** A seek for each account. */
  | "tag"
  /** A seek for each account and state. */
  | "states";

export interface Counted {
  readonly count: number;
}

/** A set to be listed. */
interface FewOrder {
  readonly name: FewSet;
  /** Only for `states`. */
  readonly states?: readonly StoredState[];
}

// Measured with a million tasks in SQLite: 3 ms for so many scattered rows, 1 ms for a seek for each state of 1,000
// accounts.
const LIST_MAX = 3000;
// From so many accounts on, no seek is made for each.
const ACCOUNTS_MAX = 1000;

/** In no order, because {@link toListed} sorts it. */
function fewOf(index: string, filter: string): string {
  return `SELECT t.created_at AS timeMs, t.seq FROM tasks AS t INDEXED BY ${index} WHERE ${filter} LIMIT @max`;
}

const OPEN = `SELECT created_at AS "timeMs", task_seq AS seq FROM queue`;

function fewReady(filter = ""): string {
  return `
  SELECT t.created_at AS "timeMs", r.task_seq AS seq
  FROM (SELECT task_seq FROM ready ${filter} LIMIT @max) AS r
  CROSS JOIN LATERAL (SELECT created_at FROM tasks WHERE seq = r.task_seq LIMIT 1) AS t`;
}

const CREATED = "created_at >= @createdAfter::bigint AND created_at < @createdBefore::bigint";

/** A seek in a table for each account. */
function inTime(table: string, seq: string, filter: string): string {
  return `
    SELECT created_at AS "timeMs", ${seq} AS seq FROM ${table}
    WHERE account_seq = a.seq AND ${filter} AND ${CREATED}
    LIMIT @max`;
}

// A small set is read entirely, so its rows include all results.
export const LISTED_BY = {
  // The result must not show that another account has such a task.
  id: statement(`
    SELECT t.created_at AS "timeMs", t.seq FROM tasks AS t
    WHERE t.id = @id::uuid AND (@accountId::bigint IS NULL OR t.account_seq = @accountId) LIMIT @max`),
  ready: eachDialect({ sqlite: fewOf("tasks_ready", "t.ready = 1"), postgres: fewReady() }),
  readyOfAccount: eachDialect({
    sqlite: fewOf("tasks_ready", "t.account_seq = @accountId AND t.ready = 1"),
    postgres: fewReady("WHERE account_seq = @accountId::bigint"),
  }),
  waiting: eachDialect({
    sqlite: fewOf("tasks_queued", "t.state = 'queued'"),
    postgres: `${OPEN} WHERE state = 'queued' LIMIT @max`,
  }),
  delayed: eachDialect({
    sqlite: fewOf("tasks_delayed", "t.state = 'delayed'"),
    postgres: `${OPEN} WHERE state = 'delayed' LIMIT @max`,
  }),
  // On PostgreSQL a node runs them, or a worker holds them: each has an index.
  running: eachDialect({
    sqlite: fewOf("tasks_running", "t.state = 'running'"),
    postgres: `
    (${OPEN} WHERE state = 'running' AND node_seq IS NOT NULL LIMIT @max) UNION ALL
    (${OPEN} WHERE state = 'running' AND node_seq IS NULL AND lease_id IS NOT NULL AND lease_ending IS NULL LIMIT @max)
    LIMIT @max`,
  }),
  tag: eachDialect({
    sqlite: `
    SELECT t.created_at AS timeMs, t.seq
    FROM accounts AS a
    CROSS JOIN tasks AS t INDEXED BY tasks_by_tag
    WHERE t.account_seq = a.seq AND t.tag IS NOT NULL AND t.tag = @tag AND t.${CREATED.replace("AND ", "AND t.")}
    LIMIT @max`,
    postgres: `
    SELECT t.* FROM accounts AS a CROSS JOIN LATERAL (${inTime("tasks", "seq", "tag = @tag::text")}) AS t
    LIMIT @max`,
  }),
  states: eachDialect({
    sqlite: `
    SELECT t.created_at AS timeMs, t.seq
    FROM accounts AS a
    CROSS JOIN json_each(@few) AS s
    CROSS JOIN tasks AS t INDEXED BY tasks_by_state
    WHERE t.account_seq = a.seq AND t.state = s.value AND t.${CREATED.replace("AND ", "AND t.")}
    LIMIT @max`,
    postgres: `
    SELECT t.*
    FROM accounts AS a CROSS JOIN unnest(@few::task_state[]) AS s (state) CROSS JOIN LATERAL (
      (${inTime("queue", "task_seq", `state = s.state AND ${IN_QUEUE_LISTED}`)})
      UNION ALL (${inTime("ends", "task_seq", "state = s.state")})
    ) AS t
    LIMIT @max`,
  }),
} as const satisfies Readonly<Record<FewSet, Statement>>;

export const COUNT_ACCOUNTS = statement(
  "SELECT count(*) AS count FROM (SELECT 1 FROM accounts LIMIT @max) AS a",
);

/**
 * Lists a small set: the seqs after the position, in the order of the result; null if the set is not small, or if no
 * index has its size.
 */
export function* listFewTasks(of: PageQuery): UseCase<readonly number[] | null> {
  const orders = fewOrders(of);
  if (orders === null) return null;
  if (orders.some(({ name }) => name === "tag" || name === "states")) {
    const accounts = yield* get<Counted>(COUNT_ACCOUNTS, { max: ACCOUNTS_MAX });
    if (accounts?.count === ACCOUNTS_MAX) return null;
  }
  const listMax = Math.min(LIST_MAX, of.examineMax);
  const values = { ...searchValues(of), max: listMax + 1 };
  const sets = yield* together(
    ...orders.map(({ name, states: few = [] }) =>
      all<TaskPlace>(LISTED_BY[name], { ...values, few }),
    ),
  );
  const rows = sets.flat();
  return rows.length > listMax ? null : toListed(rows, of);
}

/** The sets that contain all results of a search; null if no index has them. */
function fewOrders({ accountId, search }: AccountSearch): readonly FewOrder[] | null {
  if (search.id !== null) return [{ name: "id" }];
  return accountId === null ? ordersOfAll(search) : [{ name: "readyOfAccount" }];
}

function ordersOfAll(search: TaskSearch): readonly FewOrder[] | null {
  const { tag, states, createdAfter, createdBefore } = search;
  if (tag !== null) return [{ name: "tag" }];
  if (states !== null) return states.flatMap(ordersOfState);
  const isTimed = createdAfter !== null || createdBefore !== null;
  return isTimed ? [{ name: "states", states: STORED_STATES }] : null;
}

function ordersOfState(state: SearchedState): readonly FewOrder[] {
  switch (state) {
    case "queued":
      return [{ name: "waiting" }, { name: "delayed" }];
    case "waiting":
    case "delayed":
    case "running":
    case "ready":
      return [{ name: state }];
    case "completed":
    case "failed":
    case "cancelled":
      return [{ name: "states", states: [state] }];
  }
}

/** The seqs after the position, in the order of the result. */
function toListed(rows: readonly TaskPlace[], { accountId, after }: PageQuery): readonly number[] {
  const isByTime = accountId !== null;
  const order = (a: TaskPlace, b: TaskPlace) =>
    (isByTime ? b.timeMs - a.timeMs : 0) || b.seq - a.seq;
  const left = rows.filter((row) => after === null || order(after, row) < 0);
  // A ready task that has failed is in two lists. A waiting task that is also requested as queued is in both.
  return [...new Set(left.toSorted(order).map(({ seq }) => seq))];
}
