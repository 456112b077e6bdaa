import {
  ACCOUNTS_MAX,
  type FewSet,
  fewMax,
  fewOrders,
  isByAccount,
  toListed,
} from "../common/few-tasks.ts";
import {
  type ListPart,
  type ListTurn,
  type LookedAt,
  NOTHING_FOUND,
  OWN_MAX,
  type PageQuery,
  type SourceKind,
  type SourceQuery,
  accountOf,
  fullAt,
  isOnlyReady,
  ownTimes,
  placeOf,
  reached,
  readyKinds,
  takeRows,
  timeKinds,
  walkOf,
} from "../common/list.ts";
import { STORED_STATES, type SummaryRow, storedStates, toSummary } from "../common/row.ts";
import { ON_SQLITE } from "../sql/task-columns.ts";
import type { FoundTaskRow, ReadyQuery, TaskPlace } from "../store.ts";
import { type Connection, prepareEach } from "./machine/connection.ts";
import { PASSES, foundDeliveries, searchParams } from "./task-filter.ts";

/** All lists of tasks: a list looks in turns at the candidates that an index finds, and shows those that pass. */

// COLLATE BINARY changes no comparison of numbers; without it SQLite seeks by created_at alone and reads past all
// the rows of that time (the rowid has no collation of its own, so it is left out of the range).
function ofAccount(index: string, filter: string): string {
  return `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t INDEXED BY ${index}
    WHERE ${filter} AND t.account_seq = @accountSeq
      AND t.created_at >= @createdAfter AND (t.created_at, t.seq) < (@placeTime, @placeSeq COLLATE BINARY)`;
}

const FIND_ACCOUNT = `SELECT seq FROM accounts WHERE login = ?`;

const NEWEST_FIRST = "ORDER BY timeMs DESC, seq DESC LIMIT @max";

function ofReady(index: string, filter = ""): string {
  return `
    SELECT t.completed_at AS timeMs, t.seq FROM tasks AS t INDEXED BY ${index}
    WHERE t.account_seq = @accountSeq AND t.ready = 1 ${filter}
      AND (t.completed_at, t.seq) > (@placeTime, @placeSeq)
    ORDER BY t.completed_at, t.seq LIMIT @max`;
}

/** Selects one webhook of each; CROSS JOIN keeps their order. */
function ofWebhooks(table: string, filter: string): string {
  return `
    SELECT t.created_at AS timeMs, t.seq
    FROM (
      SELECT DISTINCT task_seq FROM ${table}
      WHERE ${filter} AND task_seq < @placeSeq
      ORDER BY task_seq DESC LIMIT @max
    ) AS f
    CROSS JOIN tasks AS t ON t.seq = f.task_seq`;
}

/**
 * The statement of each source: up to @max places beyond @placeTime and @placeSeq. Within an account they are read by
 * time, of all accounts by seq alone: no index orders all of them by time, and a row's seq is as old as its time.
 */
export const CANDIDATES_BY: Readonly<Record<SourceKind, string>> = {
  // Each state is a range of the index, and SQLite merges them as it reads; one range over all of them would be sorted.
  // So a list of all tasks needs no index of its own, for which every insert would pay. States that are not asked for
  // cost nothing.
  states: `${STORED_STATES.map((state) =>
    ofAccount("tasks_by_state", `@${state} AND t.state = '${state}'`),
  ).join(" UNION ALL ")} ${NEWEST_FIRST}`,
  state: `${ofAccount("tasks_by_state", "t.state = @state")} ${NEWEST_FIRST}`,
  type: `${ofAccount("tasks_by_type", "t.type = @type")} ${NEWEST_FIRST}`,
  tag: `${ofAccount("tasks_by_tag", "t.tag IS NOT NULL AND t.tag = @tag")} ${NEWEST_FIRST}`,
  ready: ofReady("tasks_ready"),
  readyByType: ofReady("tasks_ready_by_type", "AND t.type = @type"),
  readyByTag: ofReady("tasks_ready_by_tag", "AND t.tag IS NOT NULL AND t.tag = @tag"),
  failed: ofWebhooks("deliveries INDEXED BY deliveries_failed", "state IN ('given_up', 'refused')"),
  retrying: ofWebhooks("attempts INDEXED BY attempts_retrying", "started_at IS NULL AND retry > 0"),
  all: `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t
    WHERE t.seq < @placeSeq
    ORDER BY t.seq DESC LIMIT @max`,
  // The list is in the order of the answer, and has been cut at the place.
  listed: `
    SELECT t.created_at AS timeMs, t.seq
    FROM json_each(@listText) AS l
    CROSS JOIN tasks AS t ON t.seq = l.value`,
};

/** Makes a statement for each source from its candidates. */
function eachSource(sql: (candidates: string) => string): Readonly<Record<SourceKind, string>> {
  const made = Object.entries(CANDIDATES_BY).map(([kind, candidates]) => [kind, sql(candidates)]);
  // It has the same kinds.
  return Object.fromEntries(made) as Record<SourceKind, string>;
}

/** How many candidates there are up to @max, and when the newest of them was made. */
export const COUNT_CANDIDATES_BY = eachSource(
  (candidates) => `SELECT count(*) AS count, max(timeMs) AS newest FROM (${candidates})`,
);

const FOUND_COLUMNS = `
  ${ON_SQLITE.head}, t.tag, t.priority, t.start_at AS startAt, t.ready, c.login, '' AS dataText`;

// Candidates are looked up as they are found, and CROSS JOIN keeps their order.
function listSql(columns: string, also = "") {
  return eachSource(
    (candidates) => `
  SELECT ${columns}, p.timeMs, t.seq
  FROM (${candidates}) AS p
  CROSS JOIN tasks AS t ON t.seq = p.seq
  ${also}
  WHERE ${PASSES}
  LIMIT @limit`,
  );
}

/** The candidates of each source that pass, in their order. */
export const LIST_BY = listSql(ON_SQLITE.summary);

/** The same with the columns that a search shows in addition. */
export const SEARCH_BY = listSql(
  FOUND_COLUMNS,
  "CROSS JOIN accounts AS c ON c.seq = t.account_seq",
);

/** The candidate that a turn has come to. */
export const LAST_CANDIDATE_BY = eachSource(
  (candidates) => `SELECT timeMs, seq FROM (${candidates}) LIMIT 1 OFFSET @skip`,
);

/** The statement of a set that is small in most files: in no order, because {@link toListed} sorts it. */
function fewOf(index: string, filter: string): string {
  return `SELECT t.created_at AS timeMs, t.seq FROM tasks AS t INDEXED BY ${index} WHERE ${filter} LIMIT @max`;
}

const CREATED = "t.created_at >= @createdAfter AND t.created_at < @createdBefore";

// A small set is read as a whole, so what is asked for is among its rows.
export const LISTED_BY = {
  // Nobody may learn that another account has such a task.
  id: `
    SELECT t.created_at AS timeMs, t.seq FROM tasks AS t
    WHERE t.id = @id AND (@accountSeq IS NULL OR t.account_seq = @accountSeq) LIMIT @max`,
  ready: fewOf("tasks_ready", "t.ready = 1"),
  readyOfAccount: fewOf("tasks_ready", "t.account_seq = @accountSeq AND t.ready = 1"),
  waiting: fewOf("tasks_queued", "t.state = 'queued'"),
  delayed: fewOf("tasks_delayed", "t.state = 'delayed'"),
  running: fewOf("tasks_running", "t.state = 'running'"),
  // A seek for each account.
  tag: `
    SELECT t.created_at AS timeMs, t.seq
    FROM accounts AS a
    CROSS JOIN tasks AS t INDEXED BY tasks_by_tag
    WHERE t.account_seq = a.seq AND t.tag IS NOT NULL AND t.tag = @tag AND ${CREATED}
    LIMIT @max`,
  states: `
    SELECT t.created_at AS timeMs, t.seq
    FROM accounts AS a
    CROSS JOIN json_each(@statesText) AS s
    CROSS JOIN tasks AS t INDEXED BY tasks_by_state
    WHERE t.account_seq = a.seq AND t.state = s.value AND ${CREATED}
    LIMIT @max`,
} as const satisfies Readonly<Record<FewSet, string>>;

export const MANY_ACCOUNTS = `SELECT count(*) FROM (SELECT 1 FROM accounts LIMIT @max)`;

export const MANY_OF_ACCOUNT = `
  SELECT count(*)
  FROM (SELECT 1 FROM tasks INDEXED BY tasks_by_state WHERE account_seq = @accountSeq LIMIT @max)`;

type ListedRow = SummaryRow & TaskPlace;

interface FoundRow extends ListedRow, Pick<FoundTaskRow, "tag" | "priority" | "startAt" | "login"> {
  readonly ready: 0 | 1;
}

/** The lists of tasks: one turn looks at so many of them and no more. */
export function taskListReads(connection: Connection) {
  const deliveriesOf = foundDeliveries(connection);
  const take = turnTaker(connection);
  const listed = prepareEach<ListedRow, SourceKind>(connection, LIST_BY);
  const found = prepareEach<FoundRow, SourceKind>(connection, SEARCH_BY);
  const foundOf = (row: FoundRow): FoundTaskRow => toFound(row, deliveriesOf(row.seq));

  // One snapshot each, so that a task whose state changes in between is met once.
  return {
    listTasks: connection.transaction((turn: ListTurn) =>
      take(turn, { select: listed, show: toSummary, ahead: 1, isReady: false }),
    ),
    listReady: connection.transaction((turn: ListTurn) =>
      take(turn, { select: listed, show: toSummary, ahead: 1, isReady: true }),
    ),
    searchTasks: connection.transaction((turn: ListTurn) =>
      take(turn, { select: found, show: foundOf, ahead: 0, isReady: false }),
    ),
  };
}

/** The differences between one list and another. */
interface ListView<Row extends ListedRow, Shown> {
  readonly select: ReturnType<typeof prepareEach<Row, SourceKind>>;
  readonly show: (row: Row) => Shown;
  /** How many tasks beyond the requested ones are searched for, to tell whether there is a next page. */
  readonly ahead: 0 | 1;
  readonly isReady: boolean;
}

function turnTaker(connection: Connection) {
  const findAccount = connection.prepare<[string], number>(FIND_ACCOUNT).pluck();
  const choose = sourceChooser(connection);
  const count = prepareEach<{ count: number; newest: number }, SourceKind>(
    connection,
    COUNT_CANDIDATES_BY,
  );
  const lastOf = prepareEach<TaskPlace, SourceKind>(connection, LAST_CANDIDATE_BY);

  function lookedAt({ kind }: TaskSource, params: Counted): LookedAt {
    const { count: looked, newest } = count(kind).get(params) ?? { count: 0, newest: 0 };
    const last = looked === 0 ? undefined : lastOf(kind).get({ ...params, skip: looked - 1 });
    return { looked, newest, last };
  }

  return <Row extends ListedRow, Shown>(
    turn: ListTurn,
    { select, show, ahead, isReady }: ListView<Row, Shown>,
  ): ListPart<Shown> => {
    const { scope, search } = turn;
    const named = search.login === null ? undefined : findAccount.get(search.login);
    const accountSeq = accountOf(scope, search, named);
    if (accountSeq === "none") return NOTHING_FOUND;
    const of = { ...turn, accountSeq, isReady };
    const source = choose(of);
    // A prepared list is looked at as a whole: it is short.
    const max = source.kind === "listed" ? turn.examineMax : turn.turnMax;
    const params = { ...sourceParams(source, of), max };
    const rows = select(source.kind).iterate({ ...params, limit: turn.limit + ahead });
    const { taken, bytes, isCut } = takeRows(rows, turn, dataBytes);
    const last = taken.at(-1);
    const isFull = isCut || (ahead === 0 && taken.length === turn.limit);
    const until = isFull
      ? fullAt(last, turn.after)
      : reached(lookedAt(source, params), { ...params, kind: source.kind });
    const known = source.isShared === true ? ownTimes(until, { last, after: turn.after }) : until;
    return { tasks: taken.map(show), bytes, isFull, ...known };
  };
}

type Counted = ReturnType<typeof sourceParams> & { readonly max: number };

function dataBytes({ dataText }: ListedRow): number {
  return Buffer.byteLength(dataText);
}

function toFound(row: FoundRow, deliveries: FoundTaskRow["deliveries"]): FoundTaskRow {
  const { dataText: _none, ...summary } = toSummary(row);
  const { login, tag, priority, startAt } = row;
  return { ...summary, login, tag, priority, startAt, isReady: row.ready === 1, deliveries };
}

// Rows that are read at once: so many take the main thread a third of a millisecond.
const SHORT_MAX = 100;

/** True for a page of ready tasks that takes a seek and few rows. */
export function isShortRead({ search: { tag, type, ...others }, limit }: ReadyQuery): boolean {
  const isAny = Object.values(others).every((asked) => asked === null);
  return isAny && (tag === null || type === null) && limit <= SHORT_MAX;
}

/** The place where the tasks that may pass are found, in the order of the list. */
interface TaskSource {
  readonly kind: SourceKind;
  /** For `listed`: a JSON array of seqs. */
  readonly listText?: string;
  /** Other accounts' tasks are among its candidates, in a search within one account. */
  readonly isShared?: true;
}

/** Chooses the source of a turn. */
function sourceChooser(connection: Connection): (of: SourceQuery) => TaskSource {
  const listFew = fewTaskLister(connection);
  const manyOwn = connection.prepare<[object], number>(MANY_OF_ACCOUNT).pluck();
  const count = prepareEach<{ count: number }, SourceKind>(connection, COUNT_CANDIDATES_BY);

  // When several indexes serve, it takes one that comes to its end within the turn, so that rare tasks are not searched
  // for among all others.
  function narrowest(kinds: readonly SourceKind[], of: SourceQuery, otherwise: SourceKind) {
    const [first = otherwise, ...others] = kinds;
    const endsSoon = (kind: SourceKind): boolean => {
      const counted = count(kind).get({ ...sourceParams({ kind }, of), max: of.turnMax });
      return (counted?.count ?? 0) < of.turnMax;
    };
    const isFirst = others.length === 0 || endsSoon(first);
    return { kind: isFirst ? first : (others.find(endsSoon) ?? first) };
  }

  function listed(of: SourceQuery): TaskSource | null {
    const listText = listFew(of);
    return listText === null ? null : { kind: "listed", listText };
  }

  function within(accountSeq: number, of: SourceQuery): TaskSource {
    const { search } = of;
    const walk = search.tag === null ? walkOf(search) : null;
    // When an account has few tasks, all of them are looked at, instead of the failed ones of all accounts.
    const max = Math.min(OWN_MAX, of.examineMax);
    const isLarge = walk !== null && (manyOwn.get({ accountSeq, max }) ?? 0) === max;
    if (isLarge) return { kind: walk, isShared: true };
    const ready = search.tag === null && isOnlyReady(search) ? listed(of) : null;
    return ready ?? narrowest(timeKinds(search), of, "states");
  }

  return (of) => {
    const { accountSeq, search, isReady } = of;
    if (isReady) return narrowest(readyKinds(search), of, "ready");
    const byId = search.id === null ? null : listed(of);
    if (byId !== null) return byId;
    if (accountSeq !== null) return within(accountSeq, of);
    const walk = walkOf(search);
    return walk === null ? (listed(of) ?? { kind: "all" }) : { kind: walk };
  };
}

/** The parameters of a source's statements, except the number of rows. */
function sourceParams({ kind, listText = "[]" }: TaskSource, of: SourceQuery) {
  const wanted = of.search.states?.flatMap(storedStates) ?? STORED_STATES;
  const flags = STORED_STATES.map((state) => [state, wanted.includes(state) ? 1 : 0] as const);
  const { timeMs: placeTime, seq: placeSeq } = placeOf(kind, of);
  const [state] = wanted;
  return {
    ...searchParams(of),
    ...Object.fromEntries(flags),
    state,
    placeTime,
    placeSeq,
    listText,
  };
}

/**
 * Lists a small set, as a JSON array of seqs beyond the place, in the order of the answer; null when the set is not
 * small, or when no index can tell.
 */
function fewTaskLister(connection: Connection): (of: PageQuery) => string | null {
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
