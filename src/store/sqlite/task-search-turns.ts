import type { FoundTaskRow, TaskSearchPage, TaskSearchQuery } from "../store.ts";
import type { TaskSearchTurn } from "./task-search.ts";

/**
 * Rows that a search looks at in one turn of the reader thread, before others have theirs. A number and no time: where a
 * page ends must not depend on how fast the machine is. Measured with 300,000 tasks of two webhooks each: a turn takes
 * 2.5 ms for the dearest words, and while 50 searches of one account go on without end, one of another account waits for
 * 7 to 16 ms (median, on a machine that has other work too). When a search had 12 ms and a step beyond, it waited for 38.
 */
export const SEARCH_TURN_MAX = 2500;

/**
 * Looks for tasks turn by turn, until the page is full or as many rows as the query allows have been looked at. Between
 * two turns tasks may change, as between two pages: each is met once.
 */
export async function searchByTurns(
  query: TaskSearchQuery,
  take: (turn: TaskSearchTurn) => Promise<TaskSearchPage>,
): Promise<TaskSearchPage> {
  const tasks: FoundTaskRow[] = [];
  let { after } = query;
  let examinedUntil: number | null = null;
  for (let left = query.examineMax; left > 0; left -= SEARCH_TURN_MAX) {
    const limit = query.limit - tasks.length;
    const turnMax = Math.min(SEARCH_TURN_MAX, left);
    const part = await take({ ...query, limit, after, turnMax });
    tasks.push(...part.tasks);
    after = part.next;
    examinedUntil = part.examinedUntil ?? examinedUntil;
    if (after === null || tasks.length === query.limit) break;
  }
  return { tasks, next: after, examinedUntil };
}
