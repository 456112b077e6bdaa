import type { SearchedState, TaskSearch } from "../../domain/task/task-search.ts";
import type { TaskPlace } from "../store.ts";
import type { Connection } from "./machine/connection.ts";
import { prepareEach } from "./prepare-each.ts";
import { searchParams, STORED_STATES, type AccountSearch } from "./task-filter.ts";

/** Searches sets of few tasks as a whole, instead of along an index that it would soon leave. */
export interface FewQuery extends AccountSearch {
  readonly after: TaskPlace | null;
  /** The rows that the page may look at. */
  readonly examineMax: number;
}

// These sets are small in most files. A small one is read as a whole, so what is asked for is among its rows, which are
// sorted here.
export const LISTED_BY = {
  // Nobody may learn that another account has such a task.
  id: `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t
    WHERE t.id = @id AND (@accountSeq IS NULL OR t.account_seq = @accountSeq) LIMIT @max`,
  ready: `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t INDEXED BY tasks_ready WHERE t.ready = 1 LIMIT @max`,
  readyOfAccount: `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t INDEXED BY tasks_ready
    WHERE t.account_seq = @accountSeq AND t.ready = 1 LIMIT @max`,
  waiting: `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t INDEXED BY tasks_queued WHERE t.state = 'queued'
    LIMIT @max`,
  delayed: `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t INDEXED BY tasks_delayed WHERE t.state = 'delayed'
    LIMIT @max`,
  running: `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t INDEXED BY tasks_running WHERE t.state = 'running'
    LIMIT @max`,
  // A seek for each account.
  tag: `
    SELECT t.created_at AS timeMs, t.seq
    FROM accounts AS a
    CROSS JOIN tasks AS t INDEXED BY tasks_by_tag
    WHERE t.account_seq = a.seq AND t.tag IS NOT NULL AND t.tag = @tag
      AND t.created_at >= @createdAfter AND t.created_at < @createdBefore
    LIMIT @max`,
  states: `
    SELECT t.created_at AS timeMs, t.seq
    FROM accounts AS a
    CROSS JOIN json_each(@statesText) AS s
    CROSS JOIN tasks AS t INDEXED BY tasks_by_state
    WHERE t.account_seq = a.seq AND t.state = s.value
      AND t.created_at >= @createdAfter AND t.created_at < @createdBefore
    LIMIT @max`,
} as const;

export const MANY_ACCOUNTS = `SELECT count(*) FROM (SELECT 1 FROM accounts LIMIT @max)`;

// Measured with a million tasks: 3 ms for so many scattered rows, 1 ms for a seek for each state of 1,000 accounts.
const LIST_MAX = 3000;
const ACCOUNTS_MAX = 1000;

/**
 * Lists a small set, as a JSON array of seqs beyond the place, in the order of the answer; null when the set is not
 * small, or when no index can tell.
 */
export function fewTaskLister(connection: Connection): (of: FewQuery) => string | null {
  const by = prepareEach<TaskPlace, keyof typeof LISTED_BY>(connection, LISTED_BY);
  const manyAccounts = connection.prepare<[object], number>(MANY_ACCOUNTS).pluck();

  function listsOf({ accountSeq, search }: AccountSearch): readonly ListOrder[] | null {
    if (search.id !== null) return [{ name: "id" }];
    if (accountSeq !== null) return [{ name: "readyOfAccount" }];
    const lists = listsOfAll(search);
    const isByAccount = lists?.some(({ name }) => name === "tag" || name === "states") ?? false;
    const hasMany = isByAccount && (manyAccounts.get({ max: ACCOUNTS_MAX }) ?? 0) === ACCOUNTS_MAX;
    return hasMany ? null : lists;
  }

  return (of) => {
    const lists = listsOf(of);
    const listMax = Math.min(LIST_MAX, of.examineMax);
    const rows: TaskPlace[] = [];
    for (const { name, states = [] } of lists ?? []) {
      const max = listMax + 1 - rows.length;
      const statesText = JSON.stringify(states);
      rows.push(...by(name).all({ ...searchParams(of), statesText, max }));
    }
    return lists === null || rows.length > listMax ? null : toListText(rows, of);
  };
}

interface ListOrder {
  readonly name: keyof typeof LISTED_BY;
  readonly states?: readonly string[];
}

function listsOfAll({
  tag,
  states,
  createdAfter,
  createdBefore,
}: TaskSearch): readonly ListOrder[] | null {
  if (tag !== null) return [{ name: "tag" }];
  if (states !== null) return states.flatMap(listsOfState);
  const isTimed = createdAfter !== null || createdBefore !== null;
  return isTimed ? [{ name: "states", states: STORED_STATES }] : null;
}

function listsOfState(state: SearchedState): readonly ListOrder[] {
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

function toListText(rows: readonly TaskPlace[], { accountSeq, after }: FewQuery): string {
  const isByTime = accountSeq !== null;
  const order = (a: TaskPlace, b: TaskPlace) =>
    (isByTime ? b.timeMs - a.timeMs : 0) || b.seq - a.seq;
  const left = rows.filter((row) => after === null || order(after, row) < 0);
  // A ready task that has failed is in two lists. So is a waiting one that is also asked for as queued.
  const seqs = [...new Set(left.toSorted(order).map(({ seq }) => seq))];
  return JSON.stringify(seqs);
}
