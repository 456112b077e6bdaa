import {
  OWN_MAX,
  type SourceKind,
  type SourceQuery,
  isOnlyReady,
  placeOf,
  readyKinds,
  timeKinds,
  walkOf,
} from "../common/list.ts";
import { STORED_STATES, storedStates } from "../common/row.ts";
import { type Counted, listFewTasks } from "./few-tasks.ts";
import { type Statement, eachDialect } from "./statement.ts";
import { IN_QUEUE_LISTED } from "./task-columns.ts";
import { searchValues } from "./task-search.ts";
import { get, together, type UseCase } from "./use-case.ts";

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
export interface Candidates {
  readonly sqlite: string;
  readonly postgres: string;
  readonly order: string;
  /** The opposite of `order`. */
  readonly reverse: string;
}

const BY_TIME = { order: "time DESC, seq DESC", reverse: "time, seq" };
const BY_COMPLETION = { order: BY_TIME.reverse, reverse: BY_TIME.order };
const BY_SEQ = { order: "seq DESC", reverse: "seq" };
const BY_PLACE = { order: "place", reverse: "place DESC" };

const PLACE = "(@placeTime::bigint, @placeSeq::bigint)";
const NEWEST_FIRST = `ORDER BY ${BY_TIME.order} LIMIT @max`;

// COLLATE BINARY changes no comparison of numbers; without it SQLite seeks by created_at alone and reads past all
// the rows of that time (the rowid has no collation of its own, so it is left out of the range).
function rangeOnSqlite(index: string, filter: string): string {
  return `
    SELECT t.created_at AS time, t.seq FROM tasks AS t INDEXED BY ${index}
    WHERE ${filter} AND t.account_seq = @accountId
      AND t.created_at >= @createdAfter AND (t.created_at, t.seq) < (@placeTime, @placeSeq COLLATE BINARY)`;
}

function ofAccount(index: string, filter: string): Candidates {
  return {
    sqlite: `${rangeOnSqlite(index, filter)} ${NEWEST_FIRST}`,
    postgres: `
    SELECT t.created_at AS time, t.seq FROM tasks AS t
    WHERE t.account_seq = @accountId::bigint AND ${filter}
      AND t.created_at >= @createdAfter::bigint AND (t.created_at, t.seq) < ${PLACE}
    ${NEWEST_FIRST}`,
    ...BY_TIME,
  };
}

// Each state is a range of an index, and both databases merge the ranges as they read them. So a list of all tasks needs
// no index of its own, for which every insert would pay. States that are not requested cost nothing.
const STATES_ON_POSTGRES = STORED_STATES.map((state) => {
  const isOpen = state === "queued" || state === "delayed" || state === "running";
  const [table, isListed] = isOpen ? ["queue", IN_QUEUE_LISTED] : ["ends", "true"];
  return `(
    SELECT created_at AS time, task_seq AS seq FROM ${table}
    WHERE ${isListed} AND @${state}::boolean AND account_seq = @accountId::bigint AND state = '${state}'
      AND created_at >= @createdAfter::bigint AND (created_at, task_seq) < ${PLACE}
    ORDER BY created_at DESC, task_seq DESC LIMIT @max)`;
});

const OF_STATES: Candidates = {
  sqlite: `${STORED_STATES.map((state) =>
    rangeOnSqlite("tasks_by_state", `@${state} AND t.state = '${state}'`),
  ).join(" UNION ALL ")} ${NEWEST_FIRST}`,
  postgres: `${STATES_ON_POSTGRES.join(" UNION ALL ")} ${NEWEST_FIRST}`,
  ...BY_TIME,
};

function ofReady(index: string, filters: { readonly [on in "sqlite" | "postgres"]: string }) {
  return {
    sqlite: `
    SELECT t.completed_at AS time, t.seq FROM tasks AS t INDEXED BY ${index}
    WHERE t.account_seq = @accountId AND t.ready = 1 ${filters.sqlite}
      AND (t.completed_at, t.seq) > (@placeTime, @placeSeq)
    ORDER BY t.completed_at, t.seq LIMIT @max`,
    postgres: `
    SELECT completed_at AS time, task_seq AS seq FROM ready
    WHERE account_seq = @accountId::bigint ${filters.postgres}
      AND (completed_at, task_seq) > ${PLACE}
    ORDER BY completed_at, task_seq LIMIT @max`,
    ...BY_COMPLETION,
  };
}

/** On PostgreSQL: looks up a candidate in the order in which it is found. A plain join might read all tasks. */
const ITS_TIME = `CROSS JOIN LATERAL (SELECT created_at AS time FROM tasks WHERE tasks.seq = f.seq LIMIT 1) AS t`;

/** Selects one webhook of each; on SQLite CROSS JOIN keeps their order. */
function ofWebhooks(on: { readonly [on in "sqlite" | "postgres"]: string }): Candidates {
  const found = (rows: string): string => `(
      SELECT DISTINCT task_seq AS seq FROM ${rows} AND task_seq < @placeSeq::bigint
      ORDER BY task_seq DESC LIMIT @max
    ) AS f`;
  return {
    sqlite: `
    SELECT t.created_at AS time, t.seq FROM ${found(on.sqlite)} CROSS JOIN tasks AS t ON t.seq = f.seq`,
    postgres: `SELECT t.time, f.seq FROM ${found(on.postgres)} ${ITS_TIME} ORDER BY ${BY_SEQ.order}`,
    ...BY_SEQ,
  };
}

const ALL = `
    SELECT t.created_at AS time, t.seq FROM tasks AS t
    WHERE t.seq < @placeSeq::bigint ORDER BY t.seq DESC LIMIT @max`;

/**
 * Within an account they are read by time, of all accounts by seq alone: no index orders all of them by time, and a
 * row's seq is as old as its time.
 */
const CANDIDATES_BY: Readonly<Record<SourceKind, Candidates>> = {
  states: OF_STATES,
  state: {
    ...OF_STATES,
    sqlite: `${rangeOnSqlite("tasks_by_state", "t.state = @state")} ${NEWEST_FIRST}`,
  },
  type: ofAccount("tasks_by_type", "t.type = @type::text"),
  tag: ofAccount("tasks_by_tag", "t.tag IS NOT NULL AND t.tag = @tag::text"),
  ready: ofReady("tasks_ready", { sqlite: "", postgres: "" }),
  readyByType: ofReady("tasks_ready_by_type", {
    sqlite: "AND t.type = @type",
    postgres: "AND type = @type::text",
  }),
  readyByTag: ofReady("tasks_ready_by_tag", {
    sqlite: "AND t.tag IS NOT NULL AND t.tag = @tag",
    postgres: "AND tag = @tag::text",
  }),
  failed: ofWebhooks({
    sqlite: "deliveries INDEXED BY deliveries_failed WHERE ended IN ('given_up', 'refused')",
    postgres: "deliveries WHERE ended IN ('given_up', 'refused')",
  }),
  retrying: ofWebhooks({
    sqlite: "attempts INDEXED BY attempts_retrying WHERE started_at IS NULL AND retry > 0",
    postgres: "outbox WHERE started_at IS NULL AND retry > 0",
  }),
  all: { sqlite: ALL, postgres: ALL, ...BY_SEQ },
  // The list is in the order of the result, and has been cut at the place.
  listed: {
    sqlite: `
    SELECT t.created_at AS time, t.seq FROM json_each(@listed) AS l CROSS JOIN tasks AS t ON t.seq = l.value`,
    postgres: `
    SELECT t.time, f.seq, f.place FROM unnest(@listed::bigint[]) WITH ORDINALITY AS f (seq, place) ${ITS_TIME}
    ORDER BY place LIMIT @max`,
    ...BY_PLACE,
  },
};

/** Makes a statement for each source from its candidates. */
export function eachSource(
  of: (candidates: Candidates) => Statement,
): Readonly<Record<SourceKind, Statement>> {
  const made = Object.entries(CANDIDATES_BY).map(([kind, each]) => [kind, of(each)]);
  // It has the same kinds.
  return Object.fromEntries(made) as Record<SourceKind, Statement>;
}

export const COUNT_BY = eachSource(({ sqlite, postgres }) => {
  const count = (candidates: string): string =>
    `SELECT count(*) AS count FROM (${candidates}) AS p`;
  return eachDialect({ sqlite: count(sqlite), postgres: count(postgres) });
});

const countOwn = (word: string): string => `
  SELECT coalesce(sum(count), 0)::bigint AS count FROM task_counts
  WHERE account_seq = @accountId AND ${word} = ANY(@words::text[])`;

export const COUNT_OWN = eachDialect({ sqlite: countOwn("state"), postgres: countOwn("word") });

/** Chooses the source of a turn. */
export function* chooseSource(of: SourceQuery): UseCase<TaskSource> {
  const { accountId, search, isReady } = of;
  if (isReady) return yield* narrowest(of, { among: readyKinds(search), otherwise: "ready" });
  const byId = search.id === null ? null : yield* listed(of);
  if (byId !== null) return byId;
  if (accountId !== null) return yield* within(of, accountId);
  const walk = walkOf(search);
  return walk === null ? ((yield* listed(of)) ?? { kind: "all" }) : { kind: walk };
}

function* within(of: SourceQuery, accountId: number): UseCase<TaskSource> {
  const { search } = of;
  const walk = search.tag === null ? walkOf(search) : null;
  // When an account has few tasks, all of them are looked at, instead of the failed ones of all accounts.
  if (walk !== null) {
    const own = yield* get<Counted>(COUNT_OWN, { accountId, words: STORED_STATES });
    const isLarge = (own?.count ?? 0) >= Math.min(OWN_MAX, of.examineMax);
    if (isLarge) return { kind: walk, isShared: true };
  }
  const ready = search.tag === null && isOnlyReady(search) ? yield* listed(of) : null;
  return ready ?? (yield* narrowest(of, { among: timeKinds(search), otherwise: "states" }));
}

function* listed(of: SourceQuery): UseCase<TaskSource | null> {
  const seqs = yield* listFewTasks(of);
  return seqs === null ? null : { kind: "listed", listed: seqs };
}

/**
 * Of several sources that serve, the first one that comes to its end within the turn, so that rare tasks are not
 * searched for among all others; if none does, the first.
 */
function* narrowest(
  of: SourceQuery,
  { among, otherwise }: { readonly among: readonly SourceKind[]; readonly otherwise: SourceKind },
): UseCase<TaskSource> {
  const [first = otherwise, ...others] = among;
  if (others.length === 0) return { kind: first };
  const counts = yield* together(
    ...among.map((kind) =>
      get<Counted>(COUNT_BY[kind], { ...sourceValues({ kind }, of), max: of.turnMax }),
    ),
  );
  const soon = counts.findIndex((counted) => (counted?.count ?? 0) < of.turnMax);
  return { kind: among[soon] ?? first };
}

/** The parameters of a source's statements, except the number of rows. */
export function sourceValues({ kind, listed: seqs = [] }: TaskSource, of: SourceQuery) {
  const wanted = of.search.states?.flatMap(storedStates) ?? STORED_STATES;
  const flags = STORED_STATES.map((state) => [state, wanted.includes(state) ? 1 : 0] as const);
  const { timeMs: placeTime, seq: placeSeq } = placeOf(kind, of);
  return {
    ...searchValues(of),
    ...Object.fromEntries(flags),
    state: wanted[0],
    placeTime,
    placeSeq,
    listed: seqs,
  };
}
