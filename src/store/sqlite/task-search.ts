import type { TaskSearch } from "../../domain/task/task-search.ts";
import type { AttemptOutcome, DeliveryKind } from "../../domain/webhook/delivery.ts";
import type {
  FoundDelivery,
  FoundTaskRow,
  Scope,
  TaskCursor,
  TaskSearchPage,
  TaskSearchQuery,
} from "../store.ts";
import { FIND_ACCOUNT_SEQ } from "./delivery-filter.ts";
import type { Connection } from "./machine/connection.ts";
import {
  candidateChooser,
  CANDIDATES_BY,
  placeParams,
  storedStates,
  timeBounds,
  type AccountSearch,
  type CandidateSource,
  type SourceKind,
} from "./task-candidates.ts";
import { toSummary, type SummaryRow } from "./tasks.ts";

/** The state of a delivery as it is shown; `open` in the table is two of them. */
const SHOWN_STATE = `
  CASE WHEN d.state <> 'open' THEN d.state
    WHEN (SELECT started_at FROM attempts
      WHERE task_seq = d.task_seq AND kind = d.kind ORDER BY seq DESC LIMIT 1) IS NULL
    THEN 'scheduled' ELSE 'in_flight' END`;

/**
 * One of a task's webhooks goes to the host and stands as asked. A retry is looked for among what is tried again, of which
 * a webhook has one: by its other attempts a row would cost the more the oftener it was sent.
 */
const HAS_DELIVERY = `
  EXISTS (SELECT 1 FROM deliveries AS d
    WHERE d.task_seq = t.seq AND (@host IS NULL OR d.host = @host)
      AND (@deliveriesText IS NULL
        OR ${SHOWN_STATE} IN (SELECT value FROM json_each(@deliveriesText))
        OR (@retrying AND d.state = 'open' AND EXISTS (SELECT 1 FROM attempts INDEXED BY attempts_retrying
          WHERE task_seq = d.task_seq AND kind = d.kind AND started_at IS NULL AND retry > 0))))`;

const PASSES = `
  (@accountSeq IS NULL OR t.account_seq = @accountSeq)
  AND (@id IS NULL OR t.id = @id)
  AND (@type IS NULL OR t.type = @type)
  AND (@tag IS NULL OR t.tag = @tag)
  AND (@code IS NULL OR t.status_code = @code)
  AND t.created_at >= @createdAfter AND t.created_at < @createdBefore
  AND (@statesText IS NULL OR (@ready AND t.ready = 1)
    OR t.state IN (SELECT value FROM json_each(@statesText)))
  AND (NOT @delivers OR ${HAS_DELIVERY})`;

const FOUND_COLUMNS = `
  t.id, t.state, t.status_code, t.status_message, t.type, t.tag, t.priority, t.start_at, t.created_at,
  t.started_at, t.completed_at, t.expires_at, t.runs, t.ready, t.seq, c.login`;

/**
 * What passes of each source's candidates, in their order: they are read as they are found, and CROSS JOIN keeps that.
 * And where they end.
 */
export const SEARCH_BY = eachSource(
  (candidates) => `
  SELECT ${FOUND_COLUMNS}
  FROM (${candidates}) AS p
  CROSS JOIN tasks AS t ON t.seq = p.seq
  CROSS JOIN accounts AS c ON c.seq = t.account_seq
  WHERE ${PASSES}
  LIMIT @limit`,
);

export const COUNT_CANDIDATES_BY = eachSource(
  (candidates) => `SELECT count(*) AS count, max(created_at) AS newest FROM (${candidates})`,
);

export const LAST_CANDIDATE_BY = eachSource(
  (candidates) => `SELECT created_at, seq FROM (${candidates}) LIMIT 1 OFFSET @skip`,
);

function eachSource(sql: (candidates: string) => string): Readonly<Record<SourceKind, string>> {
  return {
    states: sql(CANDIDATES_BY.states),
    type: sql(CANDIDATES_BY.type),
    tag: sql(CANDIDATES_BY.tag),
    failed: sql(CANDIDATES_BY.failed),
    retrying: sql(CANDIDATES_BY.retrying),
    all: sql(CANDIDATES_BY.all),
    listed: sql(CANDIDATES_BY.listed),
  };
}

export const DELIVERIES_FOUND = `
  SELECT d.kind, d.host, ${SHOWN_STATE} AS state FROM deliveries AS d WHERE d.task_seq = ? ORDER BY d.kind`;

// A task may be sent again without end.
const ATTEMPTS_COUNTED_MAX = 1000;

export const ATTEMPTS_FOUND = `
  SELECT count(*) FROM (SELECT 1 FROM attempts WHERE task_seq = ? AND kind = ? LIMIT ${ATTEMPTS_COUNTED_MAX})`;

/** The one that is scheduled or under way, where there is one, and the last that has ended. */
export const LAST_ATTEMPTS = `
  SELECT due_at, started_at, ended_at, outcome, http_status, error
  FROM attempts WHERE task_seq = ? AND kind = ? ORDER BY seq DESC LIMIT 2`;

interface FoundRow extends Omit<SummaryRow, "data_text"> {
  tag: string | null;
  priority: number;
  start_at: number | null;
  ready: number;
  seq: number;
  login: string;
}

interface LastAttemptRow {
  due_at: number;
  started_at: number | null;
  ended_at: number | null;
  outcome: AttemptOutcome | null;
  http_status: number | null;
  error: string | null;
}

// A step looks at more rows than the one before: most searches find a page among the first.
const STEP_MIN = 250;
const STEP_MAX = 1000;

/** One turn of a search: a part of a page. */
export interface TaskSearchTurn extends TaskSearchQuery {
  /** Rows that this turn may look at. */
  readonly turnMax: number;
}

/** The search for tasks: a turn of it looks at so many of them and no more. */
export function taskSearchReads(connection: Connection) {
  const findAccount = connection.prepare<[string], number>(FIND_ACCOUNT_SEQ).pluck();
  const choose = candidateChooser(connection);
  const step = searchStep(connection);
  const deliveriesOf = foundDeliveries(connection);

  function accountOf(scope: Scope, { login }: TaskSearch): number | null | "none" {
    if (login === null) return scope;
    const named = findAccount.get(login);
    if (named === undefined || (scope !== null && scope !== named)) return "none";
    return named;
  }

  return {
    // One snapshot, so that a task that changes its state in between is met once.
    searchTasks: connection.transaction((query: TaskSearchTurn): TaskSearchPage => {
      const accountSeq = accountOf(query.scope, query.search);
      if (accountSeq === "none") return NOTHING_FOUND;
      const of = { ...query, accountSeq };
      const source = choose(of);
      const looked = lookThrough(of, { source, step });
      const { rows, next, examinedUntil } = source.isShared ? ownTimes(looked, query) : looked;
      const tasks = rows.map((row) => toFound(row, deliveriesOf(row.seq)));
      return { tasks, next, examinedUntil };
    }),
  };
}

const NOTHING_FOUND: TaskSearchPage = { tasks: [], next: null, examinedUntil: null };

type SearchStep = ReturnType<typeof searchStep>;

interface Looked {
  readonly rows: readonly FoundRow[];
  readonly next: TaskCursor | null;
  readonly examinedUntil: number | null;
}

function lookThrough(
  query: AccountSearch & Pick<TaskSearchTurn, "limit" | "turnMax">,
  { source, step }: { readonly source: CandidateSource; readonly step: SearchStep },
): Looked {
  const rows: FoundRow[] = [];
  // A list is looked at as a whole: it is short.
  let left = source.kind === "listed" ? query.examineMax : query.turnMax;
  let after = query.after;
  let size = STEP_MIN;
  let examinedUntil: number | null = null;
  while (left > 0) {
    const max = source.kind === "listed" ? left : Math.min(size, left);
    const limit = query.limit - rows.length;
    const { found, last, isEnd } = step(source, { ...query, after, max, limit });
    rows.push(...found);
    examinedUntil = last?.createdAt ?? examinedUntil;
    if (isEnd) return { rows, next: null, examinedUntil };
    after = last;
    if (rows.length === query.limit) break;
    left -= max;
    size = Math.min(2 * size, STEP_MAX);
  }
  return { rows, next: after, examinedUntil };
}

// Later than any: the place of a source that is read by seq alone.
const NO_TIME = 999_999_999_999_999;

/** Without the times of other accounts' tasks, which nobody may learn. */
function ownTimes({ rows, next }: Looked, { after }: TaskSearchQuery): Looked {
  const before = after === null || after.createdAt === NO_TIME ? null : after.createdAt;
  const examinedUntil = rows.at(-1)?.created_at ?? before;
  const place = next && { createdAt: examinedUntil ?? NO_TIME, seq: next.seq };
  return { rows, next: place, examinedUntil };
}

interface StepQuery extends AccountSearch {
  /** Of candidates. */
  readonly max: number;
  /** Of tasks. */
  readonly limit: number;
}

interface StepFound {
  readonly found: readonly FoundRow[];
  /** The last that was looked at; null when none was. */
  readonly last: TaskCursor | null;
  readonly isEnd: boolean;
}

function searchStep(connection: Connection) {
  const select = prepareEach<FoundRow>(connection, SEARCH_BY);
  const count = prepareEach<{ count: number; newest: number }>(connection, COUNT_CANDIDATES_BY);
  const lastOf = prepareEach<{ created_at: number; seq: number }>(connection, LAST_CANDIDATE_BY);

  return (source: CandidateSource, query: StepQuery): StepFound => {
    const { kind } = source;
    const { max, limit, search } = query;
    const place = { ...source.params, ...placeParams(source, query), max };
    const found = select(kind).all({ ...place, ...filterParams(query), limit });
    const lastFound = found.at(-1);
    if (found.length === limit && lastFound !== undefined) {
      return { found, last: toPlace(lastFound), isEnd: false };
    }
    const candidates = count(kind).get(place);
    const looked = candidates?.count ?? 0;
    const last = looked === 0 ? undefined : lastOf(kind).get({ ...place, skip: looked - 1 });
    // Rows are about as old as their seq tells: a whole step of too old ones is the end, and not only one of them.
    const isTooOld =
      BY_AGE.has(kind) && candidates !== undefined && isBefore(candidates.newest, search);
    return {
      found,
      last: last === undefined ? null : toPlace(last),
      isEnd: looked < max || isTooOld,
    };
  };
}

/** The sources whose rows come in the order of tasks' seqs. */
const BY_AGE: ReadonlySet<string> = new Set(["all", "failed", "retrying"]);

function isBefore(newest: number, { createdAfter }: TaskSearch): boolean {
  return createdAfter !== null && newest < createdAfter;
}

function toPlace(row: { readonly created_at: number; readonly seq: number }): TaskCursor {
  return { createdAt: row.created_at, seq: row.seq };
}

// Each of a dozen sources has three statements; most are never asked for.
function prepareEach<Row>(
  connection: Connection,
  statements: Readonly<Record<SourceKind, string>>,
) {
  const prepared = new Map<SourceKind, ReturnType<typeof prepare>>();
  const prepare = (kind: SourceKind) => connection.prepare<[object], Row>(statements[kind]);
  return (kind: SourceKind): ReturnType<typeof prepare> => {
    const known = prepared.get(kind) ?? prepare(kind);
    prepared.set(kind, known);
    return known;
  };
}

function filterParams({ accountSeq, search }: AccountSearch) {
  const { id, type, tag, host, code, states, deliveries } = search;
  const stored = states?.filter((state) => state !== "ready").flatMap(storedStates);
  return {
    ...{ accountSeq, id, type, tag, host, code, ...timeBounds(search) },
    statesText: stored === undefined ? null : JSON.stringify(stored),
    ready: states?.includes("ready") === true ? 1 : 0,
    deliveriesText: deliveries === null ? null : JSON.stringify(deliveries),
    retrying: deliveries?.includes("retrying") === true ? 1 : 0,
    delivers: host === null && deliveries === null ? 0 : 1,
  };
}

function foundDeliveries(connection: Connection): (taskSeq: number) => readonly FoundDelivery[] {
  const select = connection.prepare<
    [number],
    { kind: DeliveryKind; host: string; state: FoundDelivery["state"] }
  >(DELIVERIES_FOUND);
  const count = connection.prepare<[number, string], number>(ATTEMPTS_FOUND).pluck();
  const lastOf = connection.prepare<[number, string], LastAttemptRow>(LAST_ATTEMPTS);

  return (taskSeq) =>
    select.all(taskSeq).map(({ kind, host, state }) => {
      const newest = state === "waiting" ? [] : lastOf.all(taskSeq, kind);
      const isScheduled = newest[0] !== undefined && newest[0].started_at === null;
      const counted = newest.length === 0 ? 0 : (count.get(taskSeq, kind) ?? 0);
      return {
        ...{ kind, host, state, attempts: counted - (isScheduled ? 1 : 0) },
        last: newest.map(toLast).find((each) => each !== null) ?? null,
        nextDueAt: isScheduled ? (newest[0]?.due_at ?? null) : null,
      };
    });
}

function toLast(row: LastAttemptRow): FoundDelivery["last"] {
  const { outcome, http_status: httpStatus, error, ended_at: endedAt } = row;
  // Null together: it has not ended.
  return outcome === null || endedAt === null ? null : { outcome, httpStatus, error, endedAt };
}

function toFound(row: FoundRow, deliveries: readonly FoundDelivery[]): FoundTaskRow {
  const { dataText: _none, ...summary } = toSummary({ ...row, data_text: "" });
  return {
    ...summary,
    ...{ login: row.login, tag: row.tag, priority: row.priority, startAt: row.start_at },
    isReady: row.ready === 1,
    deliveries,
  };
}
