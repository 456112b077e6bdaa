import { TASKS_EXAMINED_MAX, type TaskPage, type TaskQuery } from "../store.ts";

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

/** One turn of a list: a part of a page. */
export interface ListTurn extends TaskQuery {
  /** The rows that the page may look at, and those of this turn. */
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
