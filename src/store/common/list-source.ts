import type { TaskSearch } from "../../domain/task/task-search.ts";
import type { TaskPlace } from "../store.ts";
import { storedStates } from "./stored-states.ts";

/**
 * Which tasks a list looks at, and in which order: as few as an index can tell apart. Each store has an index of its
 * own for each kind, and reads it in order from a place on.
 */

/**
 * Of an account by time, newest first; of its ready tasks, oldest completion first; of all accounts by seq, newest
 * first: all tasks, those with a webhook that failed for good, those with one that is being retried; or a prepared list.
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
  readonly accountSeq: number | null;
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

/** From so many tasks on, an account's failed webhooks are looked for among those of all accounts. */
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

/** The place beyond which a source is read: that of the page, or the end of the requested time if that is earlier. */
export function placeOf(kind: SourceKind, { search, after, isReady }: SourceQuery): TaskPlace {
  if (isReady) return after ?? { timeMs: -1, seq: -1 };
  if (BY_AGE.has(kind)) return { timeMs: LATEST, seq: after?.seq ?? LATEST };
  // Before every row of that time, because the first row has seq 1.
  const end = { timeMs: search.createdBefore ?? LATEST, seq: 0 };
  return after !== null && after.timeMs < end.timeMs ? after : end;
}
