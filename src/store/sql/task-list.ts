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
import type { FoundDelivery, FoundTaskRow, TaskPlace } from "../store.ts";
import { type Flag, type Values, eachDialect, statement } from "./statement.ts";
import { ON_POSTGRES, ON_SQLITE } from "./task-columns.ts";
import { DELIVERIES_ON_POSTGRES, PASSES, SHOWN_STATE } from "./task-search.ts";
import { chooseSource, eachSource, sourceValues } from "./task-sources.ts";
import { all, get, together, type UseCase } from "./use-case.ts";

/** All lists of tasks: a list looks in turns at the candidates that an index finds, and shows those that pass. */

const PASSING = `SELECT p.time AS "timeMs", p.seq, octet_length(t.data_text) AS bytes`;

// Candidates are looked up as they are found: a plain join might read all tasks. The size of a text is known without it.
export const PASSING_BY = eachSource(({ sqlite, postgres, order }) =>
  eachDialect({
    sqlite: `
  ${PASSING} FROM (${sqlite}) AS p CROSS JOIN tasks AS t ON t.seq = p.seq
  WHERE ${PASSES.sqlite}
  LIMIT @limit`,
    postgres: `
  ${PASSING} FROM (${postgres}) AS p
  CROSS JOIN LATERAL (SELECT * FROM tasks WHERE tasks.seq = p.seq LIMIT 1) AS t
  WHERE ${PASSES.postgres}
  ORDER BY ${order.replaceAll(/time|seq|place/g, "p.$&")}
  LIMIT @limit`,
  }),
);

/** How many candidates exist up to @max, when the newest of them was made, and the last one. */
export const LOOKED_AT_BY = eachSource(({ sqlite, postgres, reverse }) => {
  const lookedAt = (candidates: string, last: string): string => `
  WITH p AS MATERIALIZED (${candidates})
  SELECT (SELECT count(*) FROM p) AS looked, (SELECT max(time) FROM p) AS newest, time AS "timeMs", seq
  FROM p
  ${last}`;
  return eachDialect({
    sqlite: lookedAt(sqlite, "LIMIT 1 OFFSET (SELECT count(*) - 1 FROM p)"),
    postgres: lookedAt(postgres, `ORDER BY ${reverse} LIMIT 1`),
  });
});

export const FIND_ACCOUNT = statement("SELECT seq FROM accounts WHERE login = @login");

const LISTED_ON_SQLITE = "json_each(@seqs) AS l CROSS JOIN tasks AS t ON t.seq = l.value";
const LISTED_ON_POSTGRES = `
  unnest(@seqs::bigint[]) WITH ORDINALITY AS l (seq, place) JOIN tasks AS t ON t.seq = l.seq ${ON_POSTGRES.joins}`;

export const SELECT_SUMMARIES = eachDialect({
  sqlite: `SELECT ${ON_SQLITE.summary} FROM ${LISTED_ON_SQLITE}`,
  postgres: `SELECT ${ON_POSTGRES.summary} FROM ${LISTED_ON_POSTGRES} ORDER BY l.place`,
});

/** The columns that a search shows. */
export const SELECT_FOUND = eachDialect({
  sqlite: `
  SELECT ${ON_SQLITE.head}, '' AS dataText, t.seq, t.tag, t.priority, t.start_at AS startAt,
    ${ON_SQLITE.isReady} AS isReady, a.login
  FROM ${LISTED_ON_SQLITE} CROSS JOIN accounts AS a ON a.seq = t.account_seq`,
  postgres: `
  SELECT ${ON_POSTGRES.head}, '' AS "dataText", t.seq, t.tag, t.priority, coalesce(q.start_at, e.start_at) AS "startAt",
    ${ON_POSTGRES.isReady} AS "isReady", a.login
  FROM ${LISTED_ON_POSTGRES} JOIN accounts AS a ON a.seq = t.account_seq
  ORDER BY l.place`,
});

const newestAttempt = (condition: string): string => `
  (SELECT seq FROM attempts WHERE task_seq = d.task_seq AND kind = d.kind ${condition} ORDER BY seq DESC LIMIT 1)`;

/** The webhooks of tasks: the attempt that is scheduled or in flight, the last that has ended, and how many have. */
export const FIND_DELIVERIES = eachDialect({
  sqlite: `
  SELECT d.task_seq AS taskSeq, d.kind, d.host, ${SHOWN_STATE} AS state, o.started_at AS startedAt,
    CASE WHEN o.started_at IS NULL THEN o.due_at END AS nextDueAt, l.outcome, l.http_status AS httpStatus, l.error,
    l.ended_at AS endedAt, (
      SELECT count(*) FROM (
        SELECT 1 FROM attempts AS c WHERE c.task_seq = d.task_seq AND c.kind = d.kind LIMIT ${ATTEMPTS_COUNTED_MAX + 1}
      )
    ) - (o.seq IS NOT NULL) AS ended
  FROM json_each(@seqs) AS s CROSS JOIN deliveries AS d ON d.task_seq = s.value
  LEFT JOIN attempts AS o ON o.seq = ${newestAttempt("")} AND o.ended_at IS NULL
  LEFT JOIN attempts AS l ON l.seq = ${newestAttempt("AND ended_at IS NOT NULL")}`,
  postgres: `
  SELECT d.task_seq AS "taskSeq", d.kind, d.host, ${SHOWN_STATE} AS state, o.started_at AS "startedAt",
    CASE WHEN o.started_at IS NULL THEN o.due_at END AS "nextDueAt", l.outcome, l.http_status AS "httpStatus", l.error,
    l.ended_at AS "endedAt", (
      SELECT count(*) FROM (
        SELECT 1 FROM attempts AS c WHERE c.task_seq = d.task_seq AND c.kind = d.kind LIMIT ${ATTEMPTS_COUNTED_MAX}
      ) AS counted
    ) AS ended
  FROM ${DELIVERIES_ON_POSTGRES}
  LEFT JOIN LATERAL (
    SELECT outcome, http_status, error, ended_at FROM attempts AS a
    WHERE a.task_seq = d.task_seq AND a.kind = d.kind ORDER BY a.seq DESC LIMIT 1
  ) AS l ON true
  WHERE d.task_seq = ANY(@seqs::bigint[])
  ORDER BY d.kind`,
});

interface PassingRow extends TaskPlace {
  readonly bytes: number;
}

type OwnFields = "tag" | "priority" | "startAt" | "login";

interface FoundRow extends SummaryRow, Pick<FoundTaskRow, OwnFields> {
  readonly seq: number;
  readonly isReady: Flag;
}

/** The differences between one list and another. */
interface ListView<Shown> {
  /** Reads what is shown of tasks, in their order. */
  readonly show: (seqs: readonly number[]) => UseCase<readonly Shown[]>;
  /** How much a task takes of the page. */
  readonly bytesOf: (row: PassingRow) => number;
  /** How many tasks beyond the requested ones are searched for, to find whether a next page exists. */
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
export const taskListReads = {
  listTasks: (turn: ListTurn) => takeTurn(turn, LIST),
  listReady: (turn: ListTurn) => takeTurn(turn, READY),
  searchTasks: (turn: ListTurn) => takeTurn(turn, SEARCH),
};

function* takeTurn<Shown>(
  turn: ListTurn,
  { show, bytesOf, ahead, isReady }: ListView<Shown>,
): UseCase<ListPart<Shown>> {
  const { scope, search, after } = turn;
  const { login } = search;
  const named = login === null ? undefined : yield* get<{ seq: number }>(FIND_ACCOUNT, { login });
  const accountId = accountOf(scope, search, named?.seq);
  if (accountId === "none") return NOTHING_FOUND;
  const of = { ...turn, accountId, isReady };
  const source = yield* chooseSource(of);
  const { kind } = source;
  // A prepared list is read entirely: it is short.
  const max = kind === "listed" ? turn.examineMax : turn.turnMax;
  const values = { ...sourceValues(source, of), max };
  const rows = yield* all<PassingRow>(PASSING_BY[kind], { ...values, limit: turn.limit + ahead });
  const { taken, bytes, isCut } = takeRows(rows, turn, bytesOf);
  const last = taken.at(-1);
  const isFull = isCut || (ahead === 0 && taken.length === turn.limit);
  const [tasks, until] = yield* together(
    shown(show, taken),
    reachedBy({ kind, values, full: isFull ? fullAt(last, after) : null }),
  );
  const known = source.isShared === true ? ownTimes(until, { last, after }) : until;
  return { tasks, bytes, isFull, ...known };
}

function* shown<Shown>(
  show: ListView<Shown>["show"],
  taken: readonly PassingRow[],
): UseCase<readonly Shown[]> {
  return taken.length === 0 ? [] : yield* show(taken.map(({ seq }) => seq));
}

/** `full` is the progress of a turn that filled the page. */
function* reachedBy({ kind, values, full }: Reaching): UseCase<ListProgress> {
  if (full !== null) return full;
  const row = yield* get<TaskPlace & { looked: number; newest: number }>(
    LOOKED_AT_BY[kind],
    values,
  );
  const { looked, newest, timeMs, seq } = row ?? { looked: 0, newest: 0, timeMs: 0, seq: 0 };
  const last = row === undefined ? undefined : { timeMs, seq };
  return reached({ looked, newest, last }, { ...values, kind });
}

interface Reaching {
  readonly kind: SourceKind;
  readonly values: Values & { readonly max: number; readonly createdAfter: number };
  readonly full: ListProgress | null;
}

function* showSummaries(seqs: readonly number[]): UseCase<readonly TaskSummary[]> {
  return (yield* all<SummaryRow>(SELECT_SUMMARIES, { seqs })).map(toSummary);
}

function* showFound(seqs: readonly number[]): UseCase<readonly FoundTaskRow[]> {
  const [rows, deliveries] = yield* together(
    all<FoundRow>(SELECT_FOUND, { seqs }),
    all<DeliveryRow>(FIND_DELIVERIES, { seqs }),
  );
  const byTask = Map.groupBy(deliveries, ({ taskSeq }) => taskSeq);
  return rows.map((row) => {
    const { dataText: _none, ...summary } = toSummary(row);
    const { seq, login, tag, priority, startAt } = row;
    const own = { login, tag, priority, startAt, isReady: Boolean(row.isReady) };
    return { ...summary, ...own, deliveries: (byTask.get(seq) ?? []).map(toFound) };
  });
}

type Last = NonNullable<FoundDelivery["last"]>;

type LastColumns = { readonly [Name in keyof Last]: Last[Name] | null };

interface DeliveryRow extends Omit<FoundDelivery, "attempts" | "last">, LastColumns {
  readonly taskSeq: number;
  readonly startedAt: number | null;
  /** How many attempts have ended, as far as they are counted. */
  readonly ended: number;
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
