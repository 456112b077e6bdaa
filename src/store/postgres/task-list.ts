import type { TaskSummary } from "../../domain/task/task.ts";
import { ATTEMPTS_COUNTED_MAX } from "../../domain/webhook/delivery.ts";
import {
  type ListPart,
  type ListProgress,
  type ListTurn,
  NOTHING_FOUND,
  type SourceKind,
  accountOf,
  fullAt,
  ownTimes,
  reached,
  takeRows,
} from "../common/list.ts";
import { type SummaryRow, toSummary } from "../common/row.ts";
import { ON_POSTGRES } from "../sql/task-columns.ts";
import type { FoundDelivery, FoundTaskRow, TaskPlace } from "../store.ts";
import type { NamedValues, Sql } from "./machine/sql.ts";
import {
  DELIVERIES,
  PASSES,
  SHOWN_STATE,
  chooseSource,
  eachSource,
  sourceParams,
} from "./task-sources.ts";

/** All lists of tasks: a list looks in turns at the candidates that an index finds, and shows those that pass. */

// Candidates are looked up as they are found: a plain join might read all tasks. The size of a text is known without it.
const PASSING_BY = eachSource(
  ({ sql, order }) => `
  SELECT p.time AS "timeMs", p.seq, octet_length(t.data_text) AS bytes
  FROM (${sql}) AS p
  CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.seq = p.seq LIMIT 1) AS t
  WHERE ${PASSES}
  ORDER BY ${order.replaceAll(/time|seq|place/g, "p.$&")}
  LIMIT @limit`,
);

/** How many candidates there are up to @max, when the newest of them was made, and the last one. */
const LOOKED_AT_BY = eachSource(
  ({ sql, reverse }) => `
  WITH p AS MATERIALIZED (${sql})
  SELECT (SELECT count(*) FROM p) AS looked, (SELECT max(time) FROM p) AS newest, time AS "timeMs", seq
  FROM p
  ORDER BY ${reverse}
  LIMIT 1`,
);

const FIND_ACCOUNT = `SELECT seq FROM accounts WHERE login = $1`;

const LISTED = `unnest($1::bigint[]) WITH ORDINALITY AS l (seq, place) JOIN tasks AS t ON t.seq = l.seq ${ON_POSTGRES.joins}`;

const SELECT_SUMMARIES = `SELECT ${ON_POSTGRES.summary} FROM ${LISTED} ORDER BY l.place`;

/** The columns that a search shows. */
const SELECT_FOUND = `
  SELECT ${ON_POSTGRES.head}, '' AS "dataText", t.seq, t.tag, t.priority, coalesce(q.start_at, e.start_at) AS "startAt",
    ${ON_POSTGRES.isReady} AS "isReady", a.login
  FROM ${LISTED} JOIN accounts AS a ON a.seq = t.account_seq
  ORDER BY l.place`;

interface PassingRow extends TaskPlace {
  readonly bytes: number;
}

type OwnFields = "tag" | "priority" | "startAt" | "isReady" | "login";

interface FoundRow extends SummaryRow, Pick<FoundTaskRow, OwnFields> {
  readonly seq: number;
}

/** The differences between one list and another. */
interface ListView<Shown> {
  /** Reads what is shown of tasks, in their order. */
  readonly show: (sql: Sql, seqs: readonly number[]) => Promise<readonly Shown[]>;
  /** How much a task takes of the page. */
  readonly bytesOf: (row: PassingRow) => number;
  /** How many tasks beyond the requested ones are searched for, to tell whether there is a next page. */
  readonly ahead: 0 | 1;
  readonly isReady: boolean;
}

const LIST: ListView<TaskSummary> = {
  show: showSummaries,
  bytesOf: ({ bytes }) => bytes,
  ahead: 1,
  isReady: false,
};
const READY: ListView<TaskSummary> = { ...LIST, isReady: true };
const SEARCH: ListView<FoundTaskRow> = {
  show: showFound,
  bytesOf: () => 0,
  ahead: 0,
  isReady: false,
};

/** The lists of tasks: one turn looks at so many of them and no more. */
export function taskListReads(sql: Sql) {
  return {
    listTasks: (turn: ListTurn) => takeTurn(sql, turn, LIST),
    listReady: (turn: ListTurn) => takeTurn(sql, turn, READY),
    searchTasks: (turn: ListTurn) => takeTurn(sql, turn, SEARCH),
  };
}

async function takeTurn<Shown>(
  sql: Sql,
  turn: ListTurn,
  { show, bytesOf, ahead, isReady }: ListView<Shown>,
): Promise<ListPart<Shown>> {
  const { scope, search, after } = turn;
  const named = search.login === null ? undefined : await findAccount(sql, search.login);
  const accountSeq = accountOf(scope, search, named);
  if (accountSeq === "none") return NOTHING_FOUND;
  const of = { ...turn, accountSeq, isReady };
  const source = await chooseSource(sql, of);
  const { kind } = source;
  // A prepared list is looked at as a whole: it is short.
  const max = kind === "listed" ? turn.examineMax : turn.turnMax;
  const params = { ...sourceParams(source, of), max };
  const rows = await PASSING_BY[kind].all<PassingRow>(sql, {
    ...params,
    limit: turn.limit + ahead,
  });
  const { taken, bytes, isCut } = takeRows(rows, turn, bytesOf);
  const last = taken.at(-1);
  const isFull = isCut || (ahead === 0 && taken.length === turn.limit);
  const [tasks, until] = await Promise.all([
    taken.length === 0
      ? []
      : show(
          sql,
          taken.map(({ seq }) => seq),
        ),
    isFull ? fullAt(last, after) : reachedBy(sql, kind, params),
  ]);
  const known = source.isShared === true ? ownTimes(until, { last, after }) : until;
  return { tasks, bytes, isFull, ...known };
}

type SourceValues = NamedValues & { readonly max: number; readonly createdAfter: number };

async function reachedBy(sql: Sql, kind: SourceKind, params: SourceValues): Promise<ListProgress> {
  const row = await LOOKED_AT_BY[kind].get<TaskPlace & { looked: number; newest: number }>(
    sql,
    params,
  );
  const { looked, newest, timeMs, seq } = row ?? { looked: 0, newest: 0, timeMs: 0, seq: 0 };
  const last = row === undefined ? undefined : { timeMs, seq };
  return reached({ looked, newest, last }, { ...params, kind });
}

async function findAccount(sql: Sql, login: string): Promise<number | undefined> {
  return (await sql.get<{ seq: number }>(FIND_ACCOUNT, [login]))?.seq;
}

async function showSummaries(sql: Sql, seqs: readonly number[]): Promise<readonly TaskSummary[]> {
  return (await sql.all<SummaryRow>(SELECT_SUMMARIES, [seqs])).map(toSummary);
}

async function showFound(sql: Sql, seqs: readonly number[]): Promise<readonly FoundTaskRow[]> {
  const [rows, deliveries] = await Promise.all([
    sql.all<FoundRow>(SELECT_FOUND, [seqs]),
    findDeliveries(sql, seqs),
  ]);
  return rows.map((row) => {
    const { dataText: _none, ...summary } = toSummary(row);
    const { seq, login, tag, priority, startAt, isReady } = row;
    const own = { login, tag, priority, startAt, isReady };
    return { ...summary, ...own, deliveries: deliveries.get(seq) ?? [] };
  });
}

const FIND_DELIVERIES = `
  SELECT d.task_seq AS "taskSeq", d.kind, d.host, ${SHOWN_STATE} AS state, o.started_at AS "startedAt",
    CASE WHEN o.started_at IS NULL THEN o.due_at END AS "nextDueAt", l.outcome, l.http_status AS "httpStatus", l.error,
    l.ended_at AS "endedAt", (
      SELECT count(*) FROM (
        SELECT 1 FROM attempts AS c WHERE c.task_seq = d.task_seq AND c.kind = d.kind LIMIT ${ATTEMPTS_COUNTED_MAX}
      ) AS counted
    ) AS ended
  FROM ${DELIVERIES}
  LEFT JOIN LATERAL (
    SELECT outcome, http_status, error, ended_at FROM attempts AS a
    WHERE a.task_seq = d.task_seq AND a.kind = d.kind ORDER BY a.seq DESC LIMIT 1
  ) AS l ON true
  WHERE d.task_seq = ANY($1::bigint[])
  ORDER BY d.kind`;

type Last = NonNullable<FoundDelivery["last"]>;

type LastColumns = { readonly [Name in keyof Last]: Last[Name] | null };

interface DeliveryRow extends Omit<FoundDelivery, "attempts" | "last">, LastColumns {
  readonly taskSeq: number;
  readonly startedAt: number | null;
  /** How many attempts have ended, as far as they are counted. */
  readonly ended: number;
}

/** Reads the state of the webhooks of tasks, by their seq. */
export async function findDeliveries(
  sql: Sql,
  taskSeqs: readonly number[],
): Promise<ReadonlyMap<number, readonly FoundDelivery[]>> {
  const rows = await sql.all<DeliveryRow>(FIND_DELIVERIES, [taskSeqs]);
  const byTask = new Map<number, FoundDelivery[]>();
  for (const row of rows) {
    const deliveries = byTask.get(row.taskSeq) ?? [];
    deliveries.push(toFound(row));
    byTask.set(row.taskSeq, deliveries);
  }
  return byTask;
}

function toFound(row: DeliveryRow): FoundDelivery {
  const { kind, host, state, nextDueAt, ended, startedAt } = row;
  const attempts = Math.min(ATTEMPTS_COUNTED_MAX, ended + (startedAt === null ? 0 : 1));
  return { kind, host, state, attempts, last: toLast(row), nextDueAt };
}

function toLast({ outcome, httpStatus, error, endedAt }: DeliveryRow): FoundDelivery["last"] {
  // Both are null while none has ended.
  return outcome === null || endedAt === null ? null : { outcome, httpStatus, error, endedAt };
}
