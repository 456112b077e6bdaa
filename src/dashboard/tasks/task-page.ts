import type { FoundTask } from "../../api/search.ts";

/** A page of found tasks: how it stays the same while it is read again and more tasks come in. */

/** How many tasks a page has. */
export const PAGE_SIZE = 50;

/** Tasks of one read. */
export interface TaskPage {
  readonly rows: readonly FoundTask[];
  /** Where older tasks begin; null: there are none. */
  readonly next: string | null;
  readonly examinedUntil: string | null;
}

/** A page as it is shown, with the tasks that have come since. */
export interface ShownPage extends TaskPage {
  /** New tasks, newest first: they wait until the reader wants them. */
  readonly arrived: readonly FoundTask[];
  /** Tasks that the search no longer finds. */
  readonly gone: ReadonlySet<string>;
}

/** A page with no changes yet. */
export function freshPage(page: TaskPage): ShownPage {
  return { ...page, arrived: [], gone: new Set() };
}

/** The shown page with the present state of its tasks, each in its place; new tasks wait. */
export function followPage(shown: ShownPage, fresh: TaskPage): ShownPage {
  if (shown.rows.length === 0) return fresh.rows.length === 0 ? shown : freshPage(fresh);
  const byId = new Map(fresh.rows.map((row) => [row.id, row]));
  const known = new Set(shown.rows.map(({ id }) => id));
  const oldest = shown.rows.at(-1)?.created_at ?? "";
  const arrived = fresh.rows.filter(({ id, created_at: at }) => !known.has(id) && at >= oldest);
  const rows = shown.rows.map((row) => byId.get(row.id) ?? row);
  // Below the end of the fresh page nothing is known.
  const end = fresh.next === null ? "" : (fresh.rows.at(-1)?.created_at ?? "~");
  const gone = rows.filter(({ id, created_at: at }) => !byId.has(id) && at > end);
  return { ...shown, rows, arrived, gone: new Set(gone.map(({ id }) => id)) };
}
