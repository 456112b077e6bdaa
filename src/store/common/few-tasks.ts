import type { SearchedState, TaskSearch } from "../../domain/task/task-search.ts";
import type { StoredState } from "../../domain/task/task.ts";
import type { TaskPlace } from "../store.ts";
import type { AccountSearch, PageQuery } from "./list.ts";
import { STORED_STATES } from "./row.ts";

/** Searches sets of few tasks as a whole, instead of along an index that it would soon leave. */

/** A set that is small in most databases, and has an index. */
export type FewSet =
  | "id"
  | "ready"
  | "readyOfAccount"
  | "waiting"
  | "delayed"
  | "running"
  /** A seek for each account. */
  | "tag"
  /** A seek for each account and state. */
  | "states";

/** A set to be listed. */
export interface FewOrder {
  readonly name: FewSet;
  /** Only for `states`. */
  readonly states?: readonly StoredState[];
}

// Measured with a million tasks in SQLite: 3 ms for so many scattered rows, 1 ms for a seek for each state of 1,000
// accounts.
const LIST_MAX = 3000;
/** From so many accounts on, no seek is made for each. */
export const ACCOUNTS_MAX = 1000;

/** The most tasks that a set of a page may have. */
export function fewMax({ examineMax }: PageQuery): number {
  return Math.min(LIST_MAX, examineMax);
}

/** The sets in which everything lies that a search finds; null when no index can tell. */
export function fewOrders({ accountSeq, search }: AccountSearch): readonly FewOrder[] | null {
  if (search.id !== null) return [{ name: "id" }];
  return accountSeq === null ? ordersOfAll(search) : [{ name: "readyOfAccount" }];
}

/** True when a set has a seek for each account. */
export function isByAccount({ name }: FewOrder): boolean {
  return name === "tag" || name === "states";
}

function ordersOfAll(search: TaskSearch): readonly FewOrder[] | null {
  const { tag, states, createdAfter, createdBefore } = search;
  if (tag !== null) return [{ name: "tag" }];
  if (states !== null) return states.flatMap(ordersOfState);
  const isTimed = createdAfter !== null || createdBefore !== null;
  return isTimed ? [{ name: "states", states: STORED_STATES }] : null;
}

function ordersOfState(state: SearchedState): readonly FewOrder[] {
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

/** The seqs of those beyond the place, in the order of the answer. */
export function toListed(
  rows: readonly TaskPlace[],
  { accountSeq, after }: PageQuery,
): readonly number[] {
  const isByTime = accountSeq !== null;
  const order = (a: TaskPlace, b: TaskPlace) =>
    (isByTime ? b.timeMs - a.timeMs : 0) || b.seq - a.seq;
  const left = rows.filter((row) => after === null || order(after, row) < 0);
  // A ready task that has failed is in two lists. So is a waiting one that is also asked for as queued.
  return [...new Set(left.toSorted(order).map(({ seq }) => seq))];
}
