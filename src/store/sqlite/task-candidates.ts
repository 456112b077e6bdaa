import type { SearchedState, TaskSearch } from "../../domain/task/task-search.ts";
import type { TaskCursor } from "../store.ts";
import type { Connection } from "./machine/connection.ts";

/**
 * Which tasks a search looks at, and in which order: as few as an index can tell apart. Each source names its index, so
 * that a step begins by a seek and is read in order.
 */

/** Where the tasks that may pass are found, newest first. */
export interface CandidateSource {
  readonly kind: SourceKind;
  /** What its statement takes beside the place and the number of candidates. */
  readonly params: Readonly<Record<string, number | string | null>>;
  /** Other accounts' tasks are among its candidates, for a search within one. */
  readonly isShared: boolean;
}

export type SourceKind = "states" | "type" | "tag" | "failed" | "retrying" | "all" | "listed";

const STATES = ["queued", "delayed", "running", "completed", "failed", "cancelled"] as const;

// COLLATE BINARY changes no comparison of numbers: see task-list.ts.
const IN_TIME = `
  t.created_at >= @createdAfter AND (t.created_at, t.seq) < (@beforeTime, @beforeSeq COLLATE BINARY)`;

const BY_TIME = "ORDER BY created_at DESC, seq DESC LIMIT @max";
const BY_SEQ = "ORDER BY t.seq DESC LIMIT @max";

/**
 * The statement of each source: up to @max places below @beforeTime and @beforeSeq. Within an account they are read by
 * time, of all accounts by seq alone: nothing orders all of them by time, and a row's seq is as old as its time.
 */
export const CANDIDATES_BY: Readonly<Record<SourceKind, string>> = {
  // As a list of all tasks: each state is a range, and SQLite merges them. A state that is not asked for costs nothing.
  states: `
    ${STATES.map(
      (state) => `
    SELECT t.created_at, t.seq FROM tasks AS t INDEXED BY tasks_by_state
    WHERE @${state} AND t.account_seq = @accountSeq AND t.state = '${state}' AND ${IN_TIME}`,
    ).join(" UNION ALL ")}
    ${BY_TIME}`,
  type: `
    SELECT t.created_at, t.seq FROM tasks AS t INDEXED BY tasks_by_type
    WHERE t.account_seq = @accountSeq AND t.type = @type AND ${IN_TIME}
    ${BY_TIME}`,
  tag: `
    SELECT t.created_at, t.seq FROM tasks AS t INDEXED BY tasks_by_tag
    WHERE t.account_seq = @accountSeq AND t.tag IS NOT NULL AND t.tag = @tag AND ${IN_TIME}
    ${BY_TIME}`,
  failed: `
    SELECT t.created_at, t.seq
    FROM (
      SELECT DISTINCT task_seq FROM deliveries INDEXED BY deliveries_failed
      WHERE state IN ('given_up', 'refused') AND task_seq < @beforeSeq
      ORDER BY task_seq DESC LIMIT @max
    ) AS f
    CROSS JOIN tasks AS t ON t.seq = f.task_seq
    ${BY_SEQ}`,
  retrying: `
    SELECT t.created_at, t.seq
    FROM (
      SELECT DISTINCT task_seq FROM attempts INDEXED BY attempts_retrying
      WHERE started_at IS NULL AND retry > 0 AND task_seq < @beforeSeq
      ORDER BY task_seq DESC LIMIT @max
    ) AS f
    CROSS JOIN tasks AS t ON t.seq = f.task_seq
    ${BY_SEQ}`,
  all: `
    SELECT t.created_at, t.seq FROM tasks AS t
    WHERE t.seq < @beforeSeq
    ${BY_SEQ}`,
  // The list is in the order of the answer, and has been cut at the place.
  listed: `
    SELECT t.created_at, t.seq
    FROM json_each(@listText) AS l
    CROSS JOIN tasks AS t ON t.seq = l.value
    ORDER BY l.key
    LIMIT @max`,
};

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
export type PlaceRow = readonly [createdAt: number, seq: number];

/** A step of a search, with its account looked up. */
export interface AccountSearch {
  /** Null is all accounts. */
  readonly accountSeq: number | null;
  readonly search: TaskSearch;
  readonly after: TaskCursor | null;
  readonly examineMax: number;
}

// Measured with a million tasks: so many scattered rows take 3 ms, a seek for each state of 1,000 accounts 1 ms.
const LIST_MAX = 3000;
const ACCOUNTS_MAX = 1000;
const OWN_MAX = 20_000;

/** Chooses where a search looks. */
export function candidateChooser(connection: Connection): (of: AccountSearch) => CandidateSource {
  const listed = candidateLister(connection);
  const manyOwn = connection.prepare<[object], number>(MANY_OF_ACCOUNT).pluck();

  function within(accountSeq: number, of: AccountSearch): CandidateSource {
    const { tag, type, states, createdAfter } = of.search;
    const params = { accountSeq, tag, type, createdAfter: createdAfter ?? EARLIEST };
    const own = { params, isShared: false };
    if (tag !== null) return { kind: "tag", ...own };
    const walk = walkOf(of.search);
    // Of few tasks all are looked at, rather than what failed of everybody's.
    const max = Math.min(OWN_MAX, of.examineMax);
    const isLarge = walk !== null && (manyOwn.get({ accountSeq, max }) ?? 0) === max;
    if (isLarge) return { ...walk, isShared: true };
    const ready = isOnlyReady(of.search) ? listed(of) : null;
    if (ready !== null) return ready;
    if (type !== null && !isNarrow(states)) return { kind: "type", ...own };
    return { kind: "states", params: { ...params, ...wantedStates(states) }, isShared: false };
  }

  return (of) => {
    const { accountSeq, search } = of;
    const byId = search.id === null ? null : listed(of);
    if (byId !== null) return byId;
    if (accountSeq !== null) return within(accountSeq, of);
    return walkOf(search) ?? listed(of) ?? { kind: "all", params: {}, isShared: false };
  };
}

const EARLIEST = Number.MIN_SAFE_INTEGER;
const LATEST = Number.MAX_SAFE_INTEGER;

/** Deliveries that an index of their own knows: it is walked in the order of the tasks. */
function walkOf({ deliveries }: TaskSearch): CandidateSource | null {
  if (deliveries === null) return null;
  const walked = { params: {}, isShared: false };
  if (deliveries.every((each) => each === "given_up" || each === "refused")) {
    return { kind: "failed", ...walked };
  }
  return deliveries.every((each) => each === "retrying") ? { kind: "retrying", ...walked } : null;
}

function isOnlyReady({ states }: TaskSearch): boolean {
  return states?.length === 1 && states[0] === "ready";
}

/** Most tasks are completed: other states are narrower than a type. */
function isNarrow(states: TaskSearch["states"]): boolean {
  return states !== null && !states.includes("completed") && !states.includes("ready");
}

function wantedStates(states: TaskSearch["states"]): Readonly<Record<string, number>> {
  const stored = states === null ? STATES : states.flatMap(storedStates);
  return Object.fromEntries(STATES.map((state) => [state, stored.includes(state) ? 1 : 0]));
}

/** The states of the table in which tasks are that are shown as this one. */
export function storedStates(state: SearchedState): readonly (typeof STATES)[number][] {
  if (state === "queued") return ["queued", "delayed"];
  if (state === "waiting") return ["queued"];
  return state === "ready" ? ["completed", "failed"] : [state];
}

/** Makes lists of what is few; null for what is not, or cannot be told by an index. */
function candidateLister(connection: Connection): (of: AccountSearch) => CandidateSource | null {
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
    const { accountSeq, search } = of;
    const lists = listsOf(of);
    const listMax = Math.min(LIST_MAX, of.examineMax);
    const rows: PlaceRow[] = [];
    for (const { name, states = [] } of lists ?? []) {
      const max = listMax + 1 - rows.length;
      const given = { accountSeq, id: search.id, tag: search.tag, ...timeBounds(search), max };
      rows.push(...by[name].all({ ...given, statesText: JSON.stringify(states) }));
    }
    return lists === null || rows.length > listMax ? null : toListed(rows, of);
  };
}

/** The times that a search is for, where they are not limited too. */
export function timeBounds({ createdAfter, createdBefore }: TaskSearch) {
  return { createdAfter: createdAfter ?? EARLIEST, createdBefore: createdBefore ?? LATEST };
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

function toListed(
  rows: readonly PlaceRow[],
  { accountSeq, after }: AccountSearch,
): CandidateSource {
  const isByTime = accountSeq !== null;
  const order = (a: PlaceRow, b: PlaceRow) => (isByTime ? b[0] - a[0] : 0) || b[1] - a[1];
  const left = rows.filter((row) => after === null || order([after.createdAt, after.seq], row) < 0);
  // A ready task that has failed is in two lists, and so is a waiting one that is asked for as queued too.
  const seqs = [...new Set(left.toSorted(order).map(([, seq]) => seq))];
  return { kind: "listed", params: { listText: JSON.stringify(seqs) }, isShared: false };
}

/** The place below which a source is read: the page's, or the end of the time asked for where that is earlier. */
export function placeParams(
  { kind }: CandidateSource,
  { search, after }: Pick<AccountSearch, "search" | "after">,
): { readonly beforeTime: number; readonly beforeSeq: number } {
  if (after !== null) return { beforeTime: after.createdAt, beforeSeq: after.seq };
  const isByTime = kind === "states" || kind === "type" || kind === "tag";
  const beforeTime = search.createdBefore ?? LATEST;
  // Before every row of that time: the first has seq 1.
  return { beforeTime, beforeSeq: isByTime && search.createdBefore !== null ? 0 : LATEST };
}
