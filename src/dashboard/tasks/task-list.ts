import { call } from "../shell/api.ts";
import type { Load } from "../shell/resource.ts";
import { withExactDays } from "./reader-day.ts";
import { PAGE_SIZE, type TaskPage } from "./task-page.ts";

const PAGE_SIZE_MAX = 200;

/** How many pages are asked for automatically while nothing is found. */
const EMPTY_PAGES_MAX = 10;

/** The page to ask for. */
export interface TaskPageQuery {
  readonly q: string;
  readonly cursor: string | null;
  /** New tasks that the page knows already: it asks for so many more, to learn of the others too. */
  readonly waiting: number;
}

/**
 * Reads one page of tasks. Where nothing is found yet it looks further back by itself, ten pages at most. An
 * automatic read looks at one page, so that nothing keeps the daemon busy while nobody looks.
 */
export async function readTaskPage(
  { q, cursor, waiting }: TaskPageQuery,
  load: Load,
): Promise<TaskPage> {
  const limit = Math.min(PAGE_SIZE_MAX, PAGE_SIZE + waiting);
  let page = await readPage({ q, cursor, limit }, load);
  const more = load.isAutomatic ? 0 : EMPTY_PAGES_MAX - 1;
  for (let count = 0; count < more && page.rows.length === 0 && page.next !== null; count++) {
    page = await readPage({ q, cursor: page.next, limit }, load);
  }
  return page;
}

async function readPage(
  {
    q,
    cursor,
    limit,
  }: { readonly q: string; readonly cursor: string | null; readonly limit: number },
  load: Load,
): Promise<TaskPage> {
  const query = {
    limit,
    q: q === "" ? undefined : withExactDays(q),
    cursor: cursor ?? undefined,
  };
  const envelope = await call("GET /v1/tasks/search", { ...load, query });
  const { tasks, next_cursor: next, examined_until: examinedUntil } = envelope;
  return { rows: tasks, next, examinedUntil };
}
