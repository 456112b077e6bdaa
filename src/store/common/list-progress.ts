import type { TaskSearch } from "../../domain/task/task-search.ts";
import type { Scope, TaskPlace } from "../store.ts";
import { BY_AGE, type SourceKind } from "./list-source.ts";
import type { ListPart } from "./list-turns.ts";

/** How far the turns of a list have come. */
export type ListProgress = Pick<ListPart<unknown>, "next" | "examinedUntil">;

/** The turn of a search that nobody may make, or that finds nothing. */
export const NOTHING_FOUND = {
  tasks: [],
  bytes: 0,
  isFull: true,
  next: null,
  examinedUntil: null,
} as const;

/** The account whose tasks a search is about; null for all, `none` for one that is unknown or not the viewer's. */
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
  /** The one that it came to; undefined when there was none. */
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

/** Removes the times of other accounts' tasks, which nobody may learn. */
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
