import {
  ACCOUNTS_MAX,
  fewMax,
  fewOrders,
  isByAccount,
  toListed,
  type FewSet,
} from "../common/few-tasks.ts";
import type { PageQuery } from "../common/list-source.ts";
import type { TaskPlace } from "../store.ts";
import type { Connection } from "./machine/connection.ts";
import { prepareEach } from "./prepare-each.ts";
import { searchParams } from "./task-filter.ts";

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
} as const satisfies Readonly<Record<FewSet, string>>;

export const MANY_ACCOUNTS = `SELECT count(*) FROM (SELECT 1 FROM accounts LIMIT @max)`;

/**
 * Lists a small set, as a JSON array of seqs beyond the place, in the order of the answer; null when the set is not
 * small, or when no index can tell.
 */
export function fewTaskLister(connection: Connection): (of: PageQuery) => string | null {
  const by = prepareEach<TaskPlace, FewSet>(connection, LISTED_BY);
  const manyAccounts = connection.prepare<[object], number>(MANY_ACCOUNTS).pluck();
  const hasMany = (): boolean => (manyAccounts.get({ max: ACCOUNTS_MAX }) ?? 0) === ACCOUNTS_MAX;

  return (of) => {
    const orders = fewOrders(of);
    if (orders === null || (orders.some(isByAccount) && hasMany())) return null;
    const listMax = fewMax(of);
    const rows: TaskPlace[] = [];
    for (const { name, states = [] } of orders) {
      const max = listMax + 1 - rows.length;
      const statesText = JSON.stringify(states);
      rows.push(...by(name).all({ ...searchParams(of), statesText, max }));
    }
    return rows.length > listMax ? null : JSON.stringify(toListed(rows, of));
  };
}
