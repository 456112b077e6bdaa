import type { TaskSearch } from "../../domain/task/task-search.ts";
import { toSummary, type SummaryRow } from "../common/task-row.ts";
import type { FoundTaskRow, ReadyQuery, Scope, TaskPlace } from "../store.ts";
import { FIND_ACCOUNT_SEQ } from "./delivery-filter.ts";
import { foundDeliveries } from "./found-deliveries.ts";
import { takeRows, type ListPart, type ListTurn } from "./list-turns.ts";
import type { Connection } from "./machine/connection.ts";
import { prepareEach } from "./prepare-each.ts";
import { PASSES } from "./task-filter.ts";
import {
  BY_AGE,
  COUNT_CANDIDATES_BY,
  eachSource,
  sourceChooser,
  sourceParams,
  type SourceKind,
  type TaskSource,
} from "./task-sources.ts";
import { HEAD_COLUMNS, SUMMARY_COLUMNS } from "./tasks.ts";

/** All lists of tasks: a list looks in turns at the candidates that an index finds, and shows those that pass. */

const FOUND_COLUMNS = `
  ${HEAD_COLUMNS}, t.tag, t.priority, t.start_at AS startAt, t.ready, c.login, '' AS dataText`;

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
export const LIST_BY = listSql(SUMMARY_COLUMNS);

/** The same with the columns that a search shows in addition. */
export const SEARCH_BY = listSql(
  FOUND_COLUMNS,
  "CROSS JOIN accounts AS c ON c.seq = t.account_seq",
);

/** The candidate that a turn has come to. */
export const LAST_CANDIDATE_BY = eachSource(
  (candidates) => `SELECT timeMs, seq FROM (${candidates}) LIMIT 1 OFFSET @skip`,
);

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
  const findAccount = connection.prepare<[string], number>(FIND_ACCOUNT_SEQ).pluck();
  const choose = sourceChooser(connection);
  const count = prepareEach<{ count: number; newest: number }, SourceKind>(
    connection,
    COUNT_CANDIDATES_BY,
  );
  const lastOf = prepareEach<TaskPlace, SourceKind>(connection, LAST_CANDIDATE_BY);

  function accountOf(scope: Scope, { login }: TaskSearch): number | null | "none" {
    if (login === null) return scope;
    const named = findAccount.get(login);
    if (named === undefined || (scope !== null && scope !== named)) return "none";
    return named;
  }

  /** The progress of a turn that took in everything that passes. */
  function reached({ kind }: TaskSource, params: Counted): Reached {
    const { count: looked, newest } = count(kind).get(params) ?? { count: 0, newest: 0 };
    const last = looked === 0 ? undefined : lastOf(kind).get({ ...params, skip: looked - 1 });
    // Rows are about as old as their seq: only a whole turn of rows that are too old is the end, and not a single one.
    const isTooOld = BY_AGE.has(kind) && newest < params.createdAfter;
    const isEnd = last === undefined || looked < params.max || isTooOld;
    return { next: isEnd ? null : last, examinedUntil: last?.timeMs ?? null };
  }

  return <Row extends ListedRow, Shown>(
    turn: ListTurn,
    { select, show, ahead, isReady }: ListView<Row, Shown>,
  ): ListPart<Shown> => {
    const accountSeq = accountOf(turn.scope, turn.search);
    if (accountSeq === "none") return NOTHING;
    const of = { ...turn, accountSeq, isReady };
    const source = choose(of);
    // A prepared list is looked at as a whole: it is short.
    const max = source.kind === "listed" ? turn.examineMax : turn.turnMax;
    const params = { ...sourceParams(source, of), max };
    const rows = select(source.kind).iterate({ ...params, limit: turn.limit + ahead });
    const { taken, bytes, isCut } = takeRows(rows, turn);
    const last = taken.at(-1);
    const isFull = isCut || (ahead === 0 && taken.length === turn.limit);
    const until = isFull ? fullAt(last, turn.after) : reached(source, params);
    const known = source.isShared === true ? ownTimes(until, { last, after: turn.after }) : until;
    return { tasks: taken.map(show), bytes, isFull, ...known };
  };
}

const NOTHING = { tasks: [], bytes: 0, isFull: true, next: null, examinedUntil: null };

type Counted = ReturnType<typeof sourceParams> & { readonly max: number };

type Reached = Pick<ListPart<unknown>, "next" | "examinedUntil">;

// Anything beyond the page's last task is left to the next page.
function fullAt(last: TaskPlace | undefined, after: TaskPlace | null): Reached {
  return last === undefined
    ? { next: after, examinedUntil: null }
    : { next: toPlace(last), examinedUntil: last.timeMs };
}

// Later than any time: the place in a source that is read by seq alone.
const NO_TIME = 999_999_999_999_999;

/** Removes the times of other accounts' tasks, which nobody may learn. */
function ownTimes(
  { next }: Reached,
  { last, after }: { readonly last: TaskPlace | undefined; readonly after: TaskPlace | null },
): Reached {
  const before = after === null || after.timeMs === NO_TIME ? null : after.timeMs;
  const examinedUntil = last?.timeMs ?? before;
  return { next: next && { timeMs: examinedUntil ?? NO_TIME, seq: next.seq }, examinedUntil };
}

function toPlace({ timeMs, seq }: TaskPlace): TaskPlace {
  return { timeMs, seq };
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
