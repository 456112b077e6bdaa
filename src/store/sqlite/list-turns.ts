import type { TaskSummary } from "../../domain/task/task.ts";
import type { SummaryRow } from "./tasks.ts";

/**
 * Rows that a list with several filters looks at in one turn of the reader thread: an index knows one of them only. A
 * number and no time, as of a search. Measured with 300,000 tasks that pass one filter and not the other: 1.7 ms a turn.
 */
export const LIST_TURN_MAX = 2500;

/** Rows that it looks at for one page. A page that found too little ends there, and the next one goes on. */
const EXAMINED_MAX = 20_000;

/**
 * What one page may carry, in bytes of what was posted; a page that would be larger ends earlier. A refused task keeps
 * what was posted, up to the size of a request. Measured: so much costs the main thread 5 ms.
 */
const PAGE_BYTES_MAX = 1024 * 1024;

/** What a turn is told beside its query. */
export interface ListTurn {
  /** How much of the page's bytes is left; the first turn of a page has them all, and gives a task however large. */
  readonly bytesLeft?: number;
}

/** What a turn found. */
export interface ListPart<Place> {
  readonly tasks: readonly TaskSummary[];
  readonly bytes: number;
  /** Where the next turn or the next page begins; null at the end of the list. */
  readonly next: Place | null;
  /** No other turn is to add to the page. */
  readonly isFull: boolean;
}

/** Reads a page of a list turn by turn. Between two turns tasks may change, as between two pages. */
export async function listByTurns<Place, Query extends Bounds<Place>>(
  query: Query,
  take: (turn: Query & ListTurn) => Promise<ListPart<Place>>,
): Promise<{ readonly tasks: readonly TaskSummary[]; readonly next: Place | null }> {
  const tasks: TaskSummary[] = [];
  let part = await take(query);
  let bytesLeft = PAGE_BYTES_MAX;
  for (let left = EXAMINED_MAX - LIST_TURN_MAX; ; left -= LIST_TURN_MAX) {
    tasks.push(...part.tasks);
    bytesLeft -= part.bytes;
    const { next, isFull } = part;
    if (next === null || isFull || left <= 0) return { tasks, next };
    const limit = query.limit - tasks.length;
    const isFirst = tasks.length === 0;
    part = await take({ ...query, after: next, limit, ...(isFirst ? {} : { bytesLeft }) });
  }
}

interface Bounds<Place> {
  readonly limit: number;
  readonly after: Place | null;
}

/** The rows that a turn adds to a page: up to `limit` of them, and no more than its bytes admit. */
export function takeRows<Row extends Pick<SummaryRow, "data_text">>(
  rows: Iterable<Row>,
  { limit, bytesLeft }: ListTurn & { readonly limit: number },
): { readonly taken: readonly Row[]; readonly bytes: number; readonly isFull: boolean } {
  const taken: Row[] = [];
  const bytesMax = bytesLeft ?? PAGE_BYTES_MAX;
  let bytes = 0;
  for (const row of rows) {
    const more = bytes + Buffer.byteLength(row.data_text);
    const mayGoOver = bytesLeft === undefined && taken.length === 0;
    if (taken.length === limit || (more > bytesMax && !mayGoOver)) {
      return { taken, bytes, isFull: true };
    }
    bytes = more;
    taken.push(row);
  }
  return { taken, bytes, isFull: false };
}
