import type { TaskSearch } from "../../domain/task/task-search.ts";
import { STATE_CODES } from "../../domain/task/task.ts";
import {
  ACCOUNTS_MAX,
  type FewOrder,
  type FewSet,
  fewMax,
  fewOrders,
  isByAccount,
  toListed,
} from "../common/few-tasks.ts";
import {
  type AccountSearch,
  EARLIEST,
  LATEST,
  OWN_MAX,
  type PageQuery,
  type SourceKind,
  type SourceQuery,
  isOnlyReady,
  placeOf,
  readyKinds,
  timeKinds,
  walkOf,
} from "../common/list.ts";
import { STORED_STATES, storedStates } from "../common/row.ts";
import { IN_QUEUE_LISTED } from "../sql/task-columns.ts";
import type { TaskPlace } from "../store.ts";
import { type NamedStatement, type Sql, named } from "./machine/sql.ts";
import { toUuid } from "./task-columns.ts";

/**
 * A search in SQL: conditions on a task in `tasks AS t`. Whatever lies in another table is looked up by a subquery with
 * one value: the server runs it only for a task that it comes to, and never makes a join of it that reads a whole table.
 */

/** A delivery with the attempt that is scheduled or in flight, if there is one. */
export const DELIVERIES = `
  deliveries AS d LEFT JOIN outbox AS o ON o.task_seq = d.task_seq AND o.kind = d.kind`;

/** The state of a delivery of {@link DELIVERIES} as it is shown. */
export const SHOWN_STATE = `
  CASE WHEN d.ended IS NOT NULL THEN d.ended::text WHEN o.seq IS NULL THEN 'waiting'
    WHEN o.started_at IS NULL THEN 'scheduled' ELSE 'in_flight' END`;

// One of the task's webhooks goes to the host and is in the requested state.
const HAS_DELIVERY = `
  (SELECT true FROM ${DELIVERIES}
    WHERE d.task_seq = t.seq AND (@host::text IS NULL OR d.host = @host)
      AND (@deliveries::text[] IS NULL
        OR ${SHOWN_STATE} = ANY(@deliveries)
        OR (@retrying::boolean AND o.started_at IS NULL AND o.retry > 0))
    LIMIT 1)`;

const IS_READY = `(SELECT true FROM ready AS r WHERE r.task_seq = t.seq)`;

const STATE = `
  coalesce((SELECT q.state FROM queue AS q WHERE q.task_seq = t.seq), (SELECT e.state FROM ends AS e WHERE e.task_seq = t.seq))`;

const CODE = `
  coalesce((SELECT e.status_code FROM ends AS e WHERE e.task_seq = t.seq), (
    SELECT CASE q.state WHEN 'running' THEN ${STATE_CODES.running} ELSE ${STATE_CODES.queued} END
    FROM queue AS q WHERE q.task_seq = t.seq))`;

/**
 * The condition for each part of a search, where that is given. {@link searchParams} has the parameters that they name.
 */
const CONDITIONS: Readonly<Record<Exclude<keyof TaskSearch, "host">, string>> = {
  login: "(@accountSeq::bigint IS NULL OR t.account_seq = @accountSeq)",
  id: "(@id::uuid IS NULL OR t.id = @id)",
  type: "(@type::text IS NULL OR t.type = @type)",
  tag: "(@tag::text IS NULL OR t.tag = @tag)",
  createdAfter: "t.created_at >= @createdAfter::bigint",
  createdBefore: "t.created_at < @createdBefore::bigint",
  code: `(@code::int IS NULL OR ${CODE} = @code)`,
  states: `(@states::task_state[] IS NULL OR (@ready::boolean AND ${IS_READY}) OR ${STATE} = ANY(@states))`,
  // The webhook to the host must itself be in that state.
  deliveries: `(NOT @delivers::boolean OR ${HAS_DELIVERY})`,
};

/** The whole search holds. */
export const PASSES = Object.values(CONDITIONS).join("\n  AND ");

/** The parameters of a search. */
export function searchParams({ accountSeq, search }: AccountSearch) {
  const { id, type, tag, host, code, states, deliveries, createdAfter, createdBefore } = search;
  const shown = states?.filter((state) => state !== "ready");
  return {
    accountSeq,
    id: id === null ? null : toUuid(id),
    type,
    tag,
    host,
    code,
    createdAfter: createdAfter ?? EARLIEST,
    createdBefore: createdBefore ?? LATEST,
    states: shown?.flatMap(storedStates) ?? null,
    ready: states?.includes("ready") === true,
    deliveries,
    retrying: deliveries?.includes("retrying") === true,
    delivers: host !== null || deliveries !== null,
  };
}

/** The sources of lists. Each has an index, so that a turn begins with a seek and reads in order. */

/** The place where the tasks that may pass are found, in the order of the list. */
export interface TaskSource {
  readonly kind: SourceKind;
  /** For `listed`: the seqs. */
  readonly listed?: readonly number[];
  /** Other accounts' tasks are among its candidates, in a search within one account. */
  readonly isShared?: true;
}

/** Up to @max candidates beyond @placeTime and @placeSeq: their `time` and `seq`. */
interface Candidates {
  readonly sql: string;
  readonly order: string;
  /** The opposite of `order`. */
  readonly reverse: string;
}

const BY_TIME = { order: "time DESC, seq DESC", reverse: "time, seq" };
const BY_COMPLETION = { order: BY_TIME.reverse, reverse: BY_TIME.order };
const BY_SEQ = { order: "seq DESC", reverse: "seq" };
const BY_PLACE = { order: "place", reverse: "place DESC" };

function ofAccount(filter: string): Candidates {
  return {
    sql: `
    SELECT created_at AS time, seq FROM tasks
    WHERE account_seq = @accountSeq::bigint AND ${filter}
      AND created_at >= @createdAfter::bigint AND (created_at, seq) < (@placeTime::bigint, @placeSeq::bigint)
    ORDER BY ${BY_TIME.order} LIMIT @max`,
    ...BY_TIME,
  };
}

// The server merges the states as it reads them, and does not look at those that are not asked for.
function ofStates(): Candidates {
  const branches = STORED_STATES.map((state) => {
    const [table, isListed] = isOpen(state) ? ["queue", IN_QUEUE_LISTED] : ["ends", "true"];
    return `(
    SELECT created_at AS time, task_seq AS seq FROM ${table}
    WHERE ${isListed} AND @${state}::boolean AND account_seq = @accountSeq::bigint AND state = '${state}'
      AND created_at >= @createdAfter::bigint AND (created_at, task_seq) < (@placeTime::bigint, @placeSeq::bigint)
    ORDER BY created_at DESC, task_seq DESC LIMIT @max)`;
  });
  return {
    sql: `${branches.join(" UNION ALL ")} ORDER BY ${BY_TIME.order} LIMIT @max`,
    ...BY_TIME,
  };
}

function isOpen(state: (typeof STORED_STATES)[number]): boolean {
  return state === "queued" || state === "delayed" || state === "running";
}

function ofReady(filter = ""): Candidates {
  return {
    sql: `
    SELECT completed_at AS time, task_seq AS seq FROM ready
    WHERE account_seq = @accountSeq::bigint ${filter}
      AND (completed_at, task_seq) > (@placeTime::bigint, @placeSeq::bigint)
    ORDER BY completed_at, task_seq LIMIT @max`,
    ...BY_COMPLETION,
  };
}

/** Looks up a candidate in the order in which it is found: a plain join might read all tasks. */
const ITS_TIME = `CROSS JOIN LATERAL (SELECT created_at AS time FROM tasks WHERE tasks.seq = f.seq LIMIT 1) AS t`;

/** Selects one webhook of each. */
function ofWebhooks(table: string, filter: string): Candidates {
  return {
    sql: `
    SELECT t.time, f.seq
    FROM (
      SELECT DISTINCT task_seq AS seq FROM ${table}
      WHERE ${filter} AND task_seq < @placeSeq::bigint
      ORDER BY task_seq DESC LIMIT @max
    ) AS f ${ITS_TIME}
    ORDER BY ${BY_SEQ.order}`,
    ...BY_SEQ,
  };
}

/**
 * Within an account they are read by time, of all accounts by seq alone: no index orders all of them by time, and a
 * row's seq is as old as its time.
 */
const CANDIDATES_BY: Readonly<Record<SourceKind, Candidates>> = {
  states: ofStates(),
  state: ofStates(),
  type: ofAccount("type = @type::text"),
  tag: ofAccount("tag = @tag::text"),
  ready: ofReady(),
  readyByType: ofReady("AND type = @type::text"),
  readyByTag: ofReady("AND tag = @tag::text"),
  failed: ofWebhooks("deliveries", "ended IN ('given_up', 'refused')"),
  retrying: ofWebhooks("outbox", "started_at IS NULL AND retry > 0"),
  all: {
    sql: `
    SELECT created_at AS time, seq FROM tasks WHERE seq < @placeSeq::bigint ORDER BY ${BY_SEQ.order} LIMIT @max`,
    ...BY_SEQ,
  },
  // The list is in the order of the answer, and has been cut at the place.
  listed: {
    sql: `
    SELECT t.time, f.seq, f.place FROM unnest(@listed::bigint[]) WITH ORDINALITY AS f (seq, place) ${ITS_TIME}
    ORDER BY place LIMIT @max`,
    ...BY_PLACE,
  },
};

/** Makes a statement for each source from its candidates. */
export function eachSource(
  sql: (candidates: Candidates) => string,
): Readonly<Record<SourceKind, NamedStatement>> {
  const made = Object.entries(CANDIDATES_BY).map(([kind, candidates]) => [
    kind,
    named(sql(candidates)),
  ]);
  // It has the same kinds.
  return Object.fromEntries(made) as Record<SourceKind, NamedStatement>;
}

const COUNT_BY = eachSource(({ sql }) => `SELECT count(*) AS count FROM (${sql}) AS p`);

const COUNT_OWN = `
  SELECT coalesce(sum(count), 0)::bigint AS count FROM task_counts
  WHERE account_seq = $1 AND word = ANY($2::text[])`;

/** Chooses the source of a turn. */
export async function chooseSource(sql: Sql, of: SourceQuery): Promise<TaskSource> {
  const { accountSeq, search, isReady } = of;
  if (isReady) return narrowest(sql, of, { among: readyKinds(search), otherwise: "ready" });
  const byId = search.id === null ? null : await listed(sql, of);
  if (byId !== null) return byId;
  if (accountSeq !== null) return within(sql, of, accountSeq);
  const walk = walkOf(search);
  return walk === null ? ((await listed(sql, of)) ?? { kind: "all" }) : { kind: walk };
}

async function within(sql: Sql, of: SourceQuery, accountSeq: number): Promise<TaskSource> {
  const { search } = of;
  const walk = search.tag === null ? walkOf(search) : null;
  // When an account has few tasks, all of them are looked at, instead of the failed ones of all accounts.
  if (walk !== null && (await isLarge(sql, of, accountSeq))) return { kind: walk, isShared: true };
  const ready = search.tag === null && isOnlyReady(search) ? await listed(sql, of) : null;
  return ready ?? narrowest(sql, of, { among: timeKinds(search), otherwise: "states" });
}

async function isLarge(sql: Sql, of: SourceQuery, accountSeq: number): Promise<boolean> {
  const own = await sql.get<{ count: number }>(COUNT_OWN, [accountSeq, STORED_STATES]);
  return (own?.count ?? 0) >= Math.min(OWN_MAX, of.examineMax);
}

async function listed(sql: Sql, of: SourceQuery): Promise<TaskSource | null> {
  const seqs = await listFewTasks(sql, of);
  return seqs === null ? null : { kind: "listed", listed: seqs };
}

/**
 * Of several sources that serve, the first one that comes to its end within the turn, so that rare tasks are not
 * searched for among all others; if none does, the first.
 */
async function narrowest(
  sql: Sql,
  of: SourceQuery,
  { among, otherwise }: { readonly among: readonly SourceKind[]; readonly otherwise: SourceKind },
): Promise<TaskSource> {
  const [first = otherwise, ...others] = among;
  if (others.length === 0) return { kind: first };
  const counts = await Promise.all(among.map((kind) => countIn(sql, of, kind)));
  return { kind: among[counts.findIndex((count) => count < of.turnMax)] ?? first };
}

async function countIn(sql: Sql, of: SourceQuery, kind: SourceKind): Promise<number> {
  const values = { ...sourceParams({ kind }, of), max: of.turnMax };
  const row = await COUNT_BY[kind].get<{ count: number }>(sql, values);
  return row?.count ?? 0;
}

/** The parameters of a source's statements, except the number of rows. */
export function sourceParams({ kind, listed: seqs = [] }: TaskSource, of: SourceQuery) {
  const wanted = of.search.states?.flatMap(storedStates) ?? STORED_STATES;
  const flags = STORED_STATES.map((state) => [state, wanted.includes(state)] as const);
  const { timeMs: placeTime, seq: placeSeq } = placeOf(kind, of);
  return {
    ...searchParams(of),
    ...Object.fromEntries(flags),
    placeTime,
    placeSeq,
    listed: seqs,
  };
}

/** Searches sets of few tasks as a whole, instead of along an index that it would soon leave. */

const OPEN = `SELECT created_at AS "timeMs", task_seq AS seq FROM queue`;

function fewReady(filter = ""): string {
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
  ready: named(fewReady()),
  readyOfAccount: named(fewReady("WHERE account_seq = @accountSeq::bigint")),
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
