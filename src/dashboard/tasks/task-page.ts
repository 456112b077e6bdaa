import type { FoundTask } from "../../api/search.ts";

/** A page of found tasks, and how it stays as it is while it is read and more come in. */

/** Tasks on a page. */
export const PAGE_SIZE = 50;

/** Tasks as they were read. */
export interface TaskPage {
  readonly rows: readonly FoundTask[];
  /** Where older ones begin; null: there are none. */
  readonly next: string | null;
  readonly examinedUntil: string | null;
}

/** A page as it is shown, with what came since. */
export interface ShownPage extends TaskPage {
  /** New tasks, newest first: they wait until somebody wants them. */
  readonly arrived: readonly FoundTask[];
  /** Tasks that the search does not find any more. */
  readonly gone: ReadonlySet<string>;
}

/** A page that nothing has happened to. */
export function freshPage(page: TaskPage): ShownPage {
  return { ...page, arrived: [], gone: new Set() };
}

/** The shown page with its tasks as they are now, each in its place; new ones wait. */
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
