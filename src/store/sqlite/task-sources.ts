import type { SearchedState, TaskSearch } from "../../domain/task/task-search.ts";
import type { StoredState } from "../../domain/task/task.ts";
import type { TaskPlace } from "../store.ts";
import type { Connection } from "./machine/connection.ts";
import { LATEST, searchParams, storedStates, type AccountSearch } from "./task-filter.ts";

/**
 * Which tasks a list looks at, and in which order: as few as an index can tell apart. Each source names its index, so
 * that a turn begins by a seek and is read in order.
 */

/** Where the tasks that may pass are found, in the order of the list. */
export interface TaskSource {
  readonly kind: SourceKind;
  /** Those of `listed`: a JSON array of seqs. */
  readonly listText?: string;
  /** Other accounts' tasks are among its candidates, for a search within one. */
  readonly isShared?: true;
}

/** Of an account by time, newest first; those of its ready tasks, oldest completion first; of all accounts; made here. */
export type SourceKind = TimeKind | ReadyKind | SeqKind | "listed";

type TimeKind = "state" | "states" | "type" | "tag";
type ReadyKind = "ready" | "readyByType" | "readyByTag";
type SeqKind = "failed" | "retrying" | "all";

// Where an index is read for several states, each is a range of it, and SQLite merges them as it reads; one range over
// all of them would be sorted. So a list of all tasks needs no index of its own, which every insert would pay for. A
// state that is not asked for costs nothing.
const STATES: readonly StoredState[] = [
  "queued",
  "delayed",
  "running",
  "completed",
  "failed",
  "cancelled",
];

// COLLATE BINARY changes no comparison of numbers; without it SQLite seeks by created_at alone and reads past all
// the rows of that time (the rowid has no collation of its own, so it is left out of the range).
function ofAccount(index: string, filter: string): string {
  return `
    SELECT t.created_at AS at, t.seq FROM tasks AS t INDEXED BY ${index}
    WHERE ${filter} AND t.account_seq = @accountSeq
      AND t.created_at >= @createdAfter AND (t.created_at, t.seq) < (@placeTime, @placeSeq COLLATE BINARY)`;
}

const NEWEST_FIRST = "ORDER BY at DESC, seq DESC LIMIT @max";

function ofReady(index: string, filter = ""): string {
  return `
    SELECT t.completed_at AS at, t.seq FROM tasks AS t INDEXED BY ${index}
    WHERE t.account_seq = @accountSeq AND t.ready = 1 ${filter}
      AND (t.completed_at, t.seq) > (@placeTime, @placeSeq)
    ORDER BY t.completed_at, t.seq LIMIT @max`;
}

/** A webhook of each; CROSS JOIN keeps their order. */
function ofWebhooks(table: string, filter: string): string {
  return `
    SELECT t.created_at AS at, t.seq
    FROM (
      SELECT DISTINCT task_seq FROM ${table}
      WHERE ${filter} AND task_seq < @placeSeq
      ORDER BY task_seq DESC LIMIT @max
    ) AS f
    CROSS JOIN tasks AS t ON t.seq = f.task_seq`;
}

/**
 * The statement of each source: up to @max places beyond @placeTime and @placeSeq. Within an account they are read by
 * time, of all accounts by seq alone: nothing orders all of them by time, and a row's seq is as old as its time.
 */
export const CANDIDATES_BY: Readonly<Record<SourceKind, string>> = {
  states: `${STATES.map((state) =>
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
    SELECT t.created_at AS at, t.seq FROM tasks AS t
    WHERE t.seq < @placeSeq
    ORDER BY t.seq DESC LIMIT @max`,
  // The list is in the order of the answer, and has been cut at the place.
  listed: `
    SELECT t.created_at AS at, t.seq
    FROM json_each(@listText) AS l
    CROSS JOIN tasks AS t ON t.seq = l.value`,
};

/** How many candidates there are up to @max, and when the newest of them was made. */
export const COUNT_CANDIDATES_BY = eachSource(
  (candidates) => `SELECT count(*) AS count, max(at) AS newest FROM (${candidates})`,
);

/** A statement for each source, made of its candidates. */
export function eachSource(
  sql: (candidates: string) => string,
): Readonly<Record<SourceKind, string>> {
  const made = Object.entries(CANDIDATES_BY).map(([kind, candidates]) => [kind, sql(candidates)]);
  // Of the same kinds.
  return Object.fromEntries(made) as Record<SourceKind, string>;
}

/** Prepares what is asked for: each source has several statements, and most are never asked for. */
export function prepareEach<Row>(
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

// Sets that are few in most files, and then whole: what is asked for is among them, and they are sorted here.
const LIMITED = "LIMIT @max";

export const LISTED_BY = {
  // Nobody learns that another account has such a task.
  id: `
    SELECT t.created_at, t.seq FROM tasks AS t
    WHERE t.id = @id AND (@accountSeq IS NULL OR t.account_seq = @accountSeq) ${LIMITED}`,
  ready: `
    SELECT t.created_at, t.seq FROM tasks AS t INDEXED BY tasks_ready WHERE t.ready = 1 ${LIMITED}`,
  readyOfAccount: `
    SELECT t.created_at, t.seq FROM tasks AS t INDEXED BY tasks_ready
    WHERE t.account_seq = @accountSeq AND t.ready = 1 ${LIMITED}`,
  waiting: `
    SELECT t.created_at, t.seq FROM tasks AS t INDEXED BY tasks_queued WHERE t.state = 'queued'
    ${LIMITED}`,
  delayed: `
    SELECT t.created_at, t.seq FROM tasks AS t INDEXED BY tasks_delayed WHERE t.state = 'delayed'
    ${LIMITED}`,
  running: `
    SELECT t.created_at, t.seq FROM tasks AS t INDEXED BY tasks_running WHERE t.state = 'running'
    ${LIMITED}`,
  // A seek for each account.
  tag: `
    SELECT t.created_at, t.seq
    FROM accounts AS a
    CROSS JOIN tasks AS t INDEXED BY tasks_by_tag
    WHERE t.account_seq = a.seq AND t.tag IS NOT NULL AND t.tag = @tag
      AND t.created_at >= @createdAfter AND t.created_at < @createdBefore
    ${LIMITED}`,
  states: `
    SELECT t.created_at, t.seq
    FROM accounts AS a
    CROSS JOIN json_each(@statesText) AS s
    CROSS JOIN tasks AS t INDEXED BY tasks_by_state
    WHERE t.account_seq = a.seq AND t.state = s.value
      AND t.created_at >= @createdAfter AND t.created_at < @createdBefore
    ${LIMITED}`,
} as const;

export const MANY_ACCOUNTS = `SELECT count(*) FROM (SELECT 1 FROM accounts LIMIT @max)`;

export const MANY_OF_ACCOUNT = `
  SELECT count(*)
  FROM (SELECT 1 FROM tasks INDEXED BY tasks_by_state WHERE account_seq = @accountSeq LIMIT @max)`;

/** A place as the statements answer it. */
type PlaceRow = readonly [at: number, seq: number];

/** What a turn looks for, and how far. */
export interface SourceQuery extends AccountSearch {
  readonly isReady: boolean;
  readonly after: TaskPlace | null;
  /** Rows that the page may look at, and this turn of them. */
  readonly examineMax: number;
  readonly turnMax: number;
}

// Measured with a million tasks: so many scattered rows take 3 ms, a seek for each state of 1,000 accounts 1 ms.
const LIST_MAX = 3000;
const ACCOUNTS_MAX = 1000;
const OWN_MAX = 20_000;

/** Chooses where a turn looks. */
export function sourceChooser(connection: Connection): (of: SourceQuery) => TaskSource {
  const listed = taskLister(connection);
  const manyOwn = connection.prepare<[object], number>(MANY_OF_ACCOUNT).pluck();
  const count = prepareEach<{ count: number }>(connection, COUNT_CANDIDATES_BY);

  // Where several indexes serve, one that comes to its end within the turn, so that what is rare is not looked for among
  // everything else.
  function narrowest(kinds: readonly SourceKind[], of: SourceQuery, otherwise: SourceKind) {
    const [first = otherwise, ...others] = kinds;
    const endsSoon = (kind: SourceKind): boolean => {
      const counted = count(kind).get({ ...sourceParams({ kind }, of), max: of.turnMax });
      return (counted?.count ?? 0) < of.turnMax;
    };
    const isFirst = others.length === 0 || endsSoon(first);
    return { kind: isFirst ? first : (others.find(endsSoon) ?? first) };
  }

  function within(accountSeq: number, of: SourceQuery): TaskSource {
    const { search } = of;
    const walk = search.tag === null ? walkOf(search) : null;
    // Of few tasks all are looked at, rather than what failed of everybody's.
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

// A tag is nearly always narrower than a type. Most tasks are completed: other states are narrower than a type too.
function timeKinds({ tag, type, states }: TaskSearch): readonly TimeKind[] {
  const byTag: readonly TimeKind[] = tag === null ? [] : ["tag"];
  const byType: readonly TimeKind[] = type === null ? [] : ["type"];
  if (states === null) return [...byTag, ...byType];
  const byState = states.flatMap(storedStates).length === 1 ? "state" : "states";
  const isNarrow = !states.includes("completed") && !states.includes("ready");
  return isNarrow ? [...byTag, byState, ...byType] : [...byTag, ...byType, byState];
}

function readyKinds({ tag, type }: TaskSearch): readonly ReadyKind[] {
  const byTag: readonly ReadyKind[] = tag === null ? [] : ["readyByTag"];
  return type === null ? byTag : [...byTag, "readyByType"];
}

/** Deliveries that an index of their own knows: it is walked in the order of the tasks. */
function walkOf({ deliveries }: TaskSearch): SeqKind | null {
  if (deliveries === null) return null;
  if (deliveries.every((each) => each === "given_up" || each === "refused")) return "failed";
  return deliveries.every((each) => each === "retrying") ? "retrying" : null;
}

function isOnlyReady({ states }: TaskSearch): boolean {
  return states?.length === 1 && states[0] === "ready";
}

/** Makes lists of what is few; null for what is not, or cannot be told by an index. */
function taskLister(connection: Connection): (of: SourceQuery) => TaskSource | null {
  const select = (sql: string) => connection.prepare<[object], PlaceRow>(sql).raw();
  const by = {
    id: select(LISTED_BY.id),
    ready: select(LISTED_BY.ready),
    readyOfAccount: select(LISTED_BY.readyOfAccount),
    waiting: select(LISTED_BY.waiting),
    delayed: select(LISTED_BY.delayed),
    running: select(LISTED_BY.running),
    tag: select(LISTED_BY.tag),
    states: select(LISTED_BY.states),
  };
  const manyAccounts = connection.prepare<[object], number>(MANY_ACCOUNTS).pluck();

  function listsOf({ accountSeq, search }: AccountSearch): readonly ListOrder[] | null {
    if (search.id !== null) return [{ name: "id" }];
    if (accountSeq !== null) return [{ name: "readyOfAccount" }];
    const lists = listsOfAll(search);
    const isByAccount = lists?.some(({ name }) => name === "tag" || name === "states") ?? false;
    const hasMany = isByAccount && (manyAccounts.get({ max: ACCOUNTS_MAX }) ?? 0) === ACCOUNTS_MAX;
    return hasMany ? null : lists;
  }

  return (of) => {
    const lists = listsOf(of);
    const listMax = Math.min(LIST_MAX, of.examineMax);
    const rows: PlaceRow[] = [];
    for (const { name, states = [] } of lists ?? []) {
      const max = listMax + 1 - rows.length;
      const statesText = JSON.stringify(states);
      rows.push(...by[name].all({ ...searchParams(of), statesText, max }));
    }
    return lists === null || rows.length > listMax ? null : toListed(rows, of);
  };
}

interface ListOrder {
  readonly name: keyof typeof LISTED_BY;
  readonly states?: readonly string[];
}

function listsOfAll({
  tag,
  states,
  createdAfter,
  createdBefore,
}: TaskSearch): readonly ListOrder[] | null {
  if (tag !== null) return [{ name: "tag" }];
  if (states !== null) return states.flatMap(listsOfState);
  const isTimed = createdAfter !== null || createdBefore !== null;
  return isTimed ? [{ name: "states", states: STATES }] : null;
}

function listsOfState(state: SearchedState): readonly ListOrder[] {
  switch (state) {
    case "queued":
      return [{ name: "waiting" }, { name: "delayed" }];
    case "waiting":
    case "delayed":
    case "running":
    case "ready":
      return [{ name: state }];
    case "completed":
    case "failed":
    case "cancelled":
      return [{ name: "states", states: [state] }];
  }
}

function toListed(rows: readonly PlaceRow[], { accountSeq, after }: SourceQuery): TaskSource {
  const isByTime = accountSeq !== null;
  const order = (a: PlaceRow, b: PlaceRow) => (isByTime ? b[0] - a[0] : 0) || b[1] - a[1];
  const left = rows.filter((row) => after === null || order([after.timeMs, after.seq], row) < 0);
  // A ready task that has failed is in two lists, and so is a waiting one that is asked for as queued too.
  const seqs = [...new Set(left.toSorted(order).map(([, seq]) => seq))];
  return { kind: "listed", listText: JSON.stringify(seqs) };
}

/** What the statements of a source take, beside how many. */
export function sourceParams({ kind, listText = "[]" }: TaskSource, of: SourceQuery) {
  const wanted = of.search.states?.flatMap(storedStates) ?? STATES;
  const flags = STATES.map((state) => [state, wanted.includes(state) ? 1 : 0] as const);
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

/** The place beyond which a source is read: the page's, or the end of the time asked for where that is earlier. */
function placeOf(kind: SourceKind, { search, after, isReady }: SourceQuery): TaskPlace {
  if (isReady) return after ?? { timeMs: -1, seq: -1 };
  if (BY_AGE.has(kind)) return { timeMs: LATEST, seq: after?.seq ?? LATEST };
  // Before every row of that time: the first has seq 1.
  const end = { timeMs: search.createdBefore ?? LATEST, seq: 0 };
  return after !== null && after.timeMs < end.timeMs ? after : end;
}

/** The sources whose rows come in the order of tasks' seqs. */
export const BY_AGE: ReadonlySet<SourceKind> = new Set(["all", "failed", "retrying"]);
