import type { TaskSearch } from "../../domain/task/task-search.ts";
import {
  type Scope,
  TASKS_EXAMINED_MAX,
  type TaskPage,
  type TaskPlace,
  type TaskQuery,
} from "../store.ts";
import { storedStates } from "./row.ts";

/**
 * Which tasks a list reads, and in which order: as few as an index can select. Each store has an index of its own for
 * each kind, and reads it in order from a place on.
 */

/**
 * Tasks of an account by time, newest first; its ready tasks, oldest completion first; or a prepared list. For all
 * accounts by seq, newest first: all tasks, tasks with a permanently failed webhook, or tasks with a retried webhook.
 */
export type SourceKind = TimeKind | ReadyKind | SeqKind | "listed";

export type TimeKind = "state" | "states" | "type" | "tag";
export type ReadyKind = "ready" | "readyByType" | "readyByTag";
export type SeqKind = "failed" | "retrying" | "all";

/** The sources whose rows come in the order of tasks' seqs. */
export const BY_AGE: ReadonlySet<SourceKind> = new Set(["all", "failed", "retrying"]);

/** A search whose account has been looked up. */
export interface AccountSearch {
  /** Null stands for all accounts. */
  readonly accountId: number | null;
  readonly search: TaskSearch;
}

/** A page of a search. */
export interface PageQuery extends AccountSearch {
  readonly after: TaskPlace | null;
  /** The rows that the page may look at. */
  readonly examineMax: number;
}

/** A turn of a search, and how far it goes. */
export interface SourceQuery extends PageQuery {
  readonly isReady: boolean;
  /** The rows that this turn may look at. */
  readonly turnMax: number;
}

/**
 * From this number of tasks on, an account's failed webhooks are searched among the failed webhooks of all accounts.
 */
export const OWN_MAX = 20_000;

// Used when a time is not limited.
export const EARLIEST = Number.MIN_SAFE_INTEGER;
export const LATEST = Number.MAX_SAFE_INTEGER;

/** The sources that serve a search within an account, the narrowest first as far as that is known without a look. */
// A tag is nearly always narrower than a type. Most tasks are completed: other states are narrower than a type too.
export function timeKinds({ tag, type, states }: TaskSearch): readonly TimeKind[] {
  const byTag: readonly TimeKind[] = tag === null ? [] : ["tag"];
  const byType: readonly TimeKind[] = type === null ? [] : ["type"];
  if (states === null) return [...byTag, ...byType];
  const byState = states.flatMap(storedStates).length === 1 ? "state" : "states";
  const isNarrow = !states.includes("completed") && !states.includes("ready");
  return isNarrow ? [...byTag, byState, ...byType] : [...byTag, ...byType, byState];
}

/** The same of ready tasks. */
export function readyKinds({ tag, type }: TaskSearch): readonly ReadyKind[] {
  const byTag: readonly ReadyKind[] = tag === null ? [] : ["readyByTag"];
  return type === null ? byTag : [...byTag, "readyByType"];
}

/** Deliveries with an index of their own: it is walked in the order of the tasks. */
export function walkOf({ deliveries }: TaskSearch): SeqKind | null {
  if (deliveries === null) return null;
  if (deliveries.every((each) => each === "given_up" || each === "refused")) return "failed";
  return deliveries.every((each) => each === "retrying") ? "retrying" : null;
}

export function isOnlyReady({ states }: TaskSearch): boolean {
  return states?.length === 1 && states[0] === "ready";
}

/**
 * The position after which a source is read: the page's position, or the end of the requested time if that is earlier.
 */
export function placeOf(kind: SourceKind, { search, after, isReady }: SourceQuery): TaskPlace {
  if (isReady) return after ?? { timeMs: -1, seq: -1 };
  if (BY_AGE.has(kind)) return { timeMs: LATEST, seq: after?.seq ?? LATEST };
  // Before every row of that time, because the first row has seq 1.
  const end = { timeMs: search.createdBefore ?? LATEST, seq: 0 };
  return after !== null && after.timeMs < end.timeMs ? after : end;
}

/** How far the turns of a list have come. */
export type ListProgress = Pick<ListPart<unknown>, "next" | "examinedUntil">;

/** The turn of a search that is not permitted or finds nothing. */
export const NOTHING_FOUND = {
  tasks: [],
  bytes: 0,
  isFull: true,
  next: null,
  examinedUntil: null,
} as const;

/**
 * The account whose tasks a search selects; null for all accounts, `none` for an account that is unknown or not the
 * viewer's.
 */
export function accountOf(
  scope: Scope,
  { login }: TaskSearch,
  named: number | undefined,
): number | null | "none" {
  if (login === null) return scope;
  return named === undefined || (scope !== null && scope !== named) ? "none" : named;
}

/** The rows that a turn has looked at. */
export interface LookedAt {
  readonly looked: number;
  /** When the newest of them was made. */
  readonly newest: number;
  /** The last row that was read; undefined if no row was read. */
  readonly last: TaskPlace | undefined;
}

/** The progress of a turn that took in everything that passes. */
export function reached(
  { looked, newest, last }: LookedAt,
  of: { readonly kind: SourceKind; readonly max: number; readonly createdAfter: number },
): ListProgress {
  // Rows are about as old as their seq: only a whole turn of rows that are too old is the end, and not a single one.
  const isTooOld = BY_AGE.has(of.kind) && newest < of.createdAfter;
  const isEnd = last === undefined || looked < of.max || isTooOld;
  return { next: isEnd ? null : last, examinedUntil: last?.timeMs ?? null };
}

/** The progress of a turn that filled the page: anything beyond its last task is left to the next page. */
export function fullAt(last: TaskPlace | undefined, after: TaskPlace | null): ListProgress {
  return last === undefined
    ? { next: after, examinedUntil: null }
    : { next: toPlace(last), examinedUntil: last.timeMs };
}

// Later than any time: the place in a source that is read by seq alone.
const NO_TIME = 999_999_999_999_999;

/** Removes the times of other accounts' tasks, which the viewer may not see. */
export function ownTimes(
  { next }: ListProgress,
  { last, after }: { readonly last: TaskPlace | undefined; readonly after: TaskPlace | null },
): ListProgress {
  const before = after === null || after.timeMs === NO_TIME ? null : after.timeMs;
  const examinedUntil = last?.timeMs ?? before;
  return { next: next && { timeMs: examinedUntil ?? NO_TIME, seq: next.seq }, examinedUntil };
}

function toPlace({ timeMs, seq }: TaskPlace): TaskPlace {
  return { timeMs, seq };
}

/**
 * The number of rows that a list looks at in one turn of the reader thread, before others have theirs. It is a number
 * and not a time, because the end of a page must not depend on how fast the machine is. Measured with 300,000 tasks of
 * two webhooks each: a turn takes 2.5 ms for the most expensive search, and 1.7 ms for a list that passes one filter
 * and not the other. While 50 searches of one account run without end, a search of another account waits for 7 to 16 ms
 * (median, on a machine that has other work too). When a search had 12 ms and a step beyond, it waited for 38.
 */
export const LIST_TURN_MAX = 2500;

/**
 * The most that one page may carry, in bytes of what was posted; a page that would be larger ends earlier. A refused
 * task keeps its post, up to the size of a request. Measured: so much costs the main thread 5 ms.
 */
const PAGE_BYTES_MAX = 1024 * 1024;

/** The limits of a page of a list. */
export interface ListLimits {
  /** How many tasks a page may look at; undefined takes the number of {@link Store.listTasks}. */
  readonly examineMax: number | undefined;
}

/** One turn of a list: a part of a page. */
export interface ListTurn extends TaskQuery {
  /** The rows that the page may read, and the rows that this turn may read. */
  readonly examineMax: number;
  readonly turnMax: number;
  /**
   * How many of the page's bytes are left; null while it is empty, because the first task is given however large it is.
   */
  readonly bytesLeft: number | null;
}

/** The result of a turn. */
export interface ListPart<Row> extends TaskPage<Row> {
  readonly bytes: number;
  /** True when no other turn may add to the page. */
  readonly isFull: boolean;
}

/**
 * Reads a page of a list turn by turn, until the page is full or has looked at as many rows as it may. Tasks may change
 * between two turns, as between two pages; each is met once.
 */
export async function listByTurns<Row>(
  query: TaskQuery,
  take: (turn: ListTurn) => Promise<ListPart<Row>>,
  examineMax = TASKS_EXAMINED_MAX,
): Promise<TaskPage<Row>> {
  const tasks: Row[] = [];
  let { after } = query;
  let examinedUntil: number | null = null;
  let bytes = 0;
  for (let left = examineMax; left > 0; left -= LIST_TURN_MAX) {
    const limit = query.limit - tasks.length;
    const turnMax = Math.min(LIST_TURN_MAX, left);
    const bytesLeft = tasks.length === 0 ? null : PAGE_BYTES_MAX - bytes;
    const part = await take({ ...query, after, limit, examineMax, turnMax, bytesLeft });
    tasks.push(...part.tasks);
    bytes += part.bytes;
    after = part.next;
    examinedUntil = part.examinedUntil ?? examinedUntil;
    if (part.isFull || after === null) break;
  }
  return { tasks, next: after, examinedUntil };
}

/**
 * Takes the rows that a turn adds to a page: up to `limit` of them, within its bytes. It is cut where there are more.
 */
export function takeRows<Row>(
  rows: Iterable<Row>,
  { limit, bytesLeft }: Pick<ListTurn, "limit" | "bytesLeft">,
  bytesOf: (row: Row) => number,
): { readonly taken: readonly Row[]; readonly bytes: number; readonly isCut: boolean } {
  const taken: Row[] = [];
  const bytesMax = bytesLeft ?? PAGE_BYTES_MAX;
  let bytes = 0;
  for (const row of rows) {
    const more = bytes + bytesOf(row);
    const mayGoOver = bytesLeft === null && taken.length === 0;
    if (taken.length === limit || (more > bytesMax && !mayGoOver)) {
      return { taken, bytes, isCut: true };
    }
    bytes = more;
    taken.push(row);
  }
  return { taken, bytes, isCut: false };
}

// Rows erased in one step delay other writes. SQLite overwrites it all (secure_delete): 100 tasks of 5 MiB took 5.7 s
// (measured), and so much takes some 20 ms. PostgreSQL marks each 2 KB of a large text as gone: the 100 took 1 to 4 s.
const ERASE_BYTES_MAX = 2 * 1024 * 1024;

/** A row that is to be erased, and its size. */
export interface SizedRow {
  readonly seq: number;
  readonly bytes: number;
}

/** A task whose retention is over. */
export interface ExpiredRow extends SizedRow {
  readonly id: string;
}

/**
 * Takes the first rows, as many as one step may erase: at least one, however large, because it would never be erased
 * otherwise.
 */
export function takeWithin<Row extends Pick<SizedRow, "bytes">>(rows: Iterable<Row>): Row[] {
  const taken: Row[] = [];
  let sum = 0;
  for (const row of rows) {
    sum += row.bytes;
    if (taken.length > 0 && sum > ERASE_BYTES_MAX) break;
    taken.push(row);
  }
  return taken;
}
