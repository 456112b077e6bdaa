import {
  accountOf,
  fullAt,
  NOTHING_FOUND,
  ownTimes,
  reached,
  type LookedAt,
} from "../common/list-progress.ts";
import type { SourceKind } from "../common/list-source.ts";
import { takeRows, type ListPart, type ListTurn } from "../common/list-turns.ts";
import { toSummary, type SummaryRow } from "../common/task-row.ts";
import type { FoundTaskRow, ReadyQuery, TaskPlace } from "../store.ts";
import { FIND_ACCOUNT_SEQ } from "./delivery-filter.ts";
import { foundDeliveries } from "./found-deliveries.ts";
import type { Connection } from "./machine/connection.ts";
import { prepareEach } from "./prepare-each.ts";
import { PASSES } from "./task-filter.ts";
import {
  COUNT_CANDIDATES_BY,
  eachSource,
  sourceChooser,
  sourceParams,
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
