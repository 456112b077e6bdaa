import {
  isOnlyReady,
  OWN_MAX,
  placeOf,
  readyKinds,
  timeKinds,
  walkOf,
  type SourceKind,
  type SourceQuery,
} from "../common/list-source.ts";
import { STORED_STATES, storedStates } from "../common/stored-states.ts";
import { listFewTasks } from "./few-tasks.ts";
import { named, type NamedStatement } from "./machine/named.ts";
import type { Sql } from "./machine/sql.ts";
import { IN_QUEUE_LISTED } from "./task-columns.ts";
import { searchParams } from "./task-filter.ts";

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
