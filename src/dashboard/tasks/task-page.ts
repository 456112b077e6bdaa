import type { FoundTask } from "../../api/search.ts";

/** A page of found tasks: how it stays the same while it is read again and more tasks come in. */

export const PAGE_SIZE = 50;

export interface TaskPage {
  readonly rows: readonly FoundTask[];
  /** The cursor of older tasks; null without older tasks. */
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

/** Changes words of a task search and leaves the others as they were written. */

/** The words of a search, quotes and all. */
export function searchWords(q: string): readonly string[] {
  return q.match(/(?:"(?:[^"\\]|\\.)*"?|[^\s"])+/gsu) ?? [];
}

/** The values that the words `name:a,b` list. */
export function listedIn(q: string, name: string): readonly string[] {
  return searchWords(q).flatMap((word) => valuesOf(word, name) ?? []);
}

/** The search with one more value, or one fewer if it was in: `state:failed` becomes `state:failed,queued`. */
export function toggled(q: string, name: string, value: string): string {
  const before = listedIn(q, name);
  const after = before.includes(value)
    ? before.filter((each) => each !== value)
    : [...before, value];
  const others = searchWords(q).filter((word) => valuesOf(word, name) === null);
  // They come before the others: quotes that are not closed would swallow them.
  return [...(after.length === 0 ? [] : [`${name}:${after.join(",")}`]), ...others].join(" ");
}

/** The search without one of its words. */
export function withoutWord(q: string, index: number): string {
  return searchWords(q)
    .filter((_, at) => at !== index)
    .join(" ");
}

function valuesOf(word: string, name: string): readonly string[] | null {
  if (!word.toLowerCase().startsWith(`${name}:`)) return null;
  const values = word
    .slice(name.length + 1)
    .toLowerCase()
    .replaceAll('"', "");
  return values.split(",").filter((value) => value !== "");
}

const DAY_WORD = /^(after|before):("?)(\d{4})-(\d{2})-(\d{2})\2$/i;

/**
 * The search with its days as exact times. A day of the API is a day in UTC, but readers mean a day of their time zone:
 * `after:2030-01-31` is sent as `after:2030-01-30T23:00:00.000Z` from Berlin. Words without a day stay as they are.
 */
export function withExactDays(q: string): string {
  const words = searchWords(q);
  return words.some((word) => DAY_WORD.test(word)) ? words.map(exactWord).join(" ") : q;
}

function exactWord(word: string): string {
  const [, name, , year, month, day] = DAY_WORD.exec(word) ?? [];
  if (name === undefined) return word;
  const start = midnightOf(Number(year), Number(month), Number(day));
  // The API refuses a day that is in no calendar.
  return start === null ? word : `${name}:${start.toISOString()}`;
}

function midnightOf(year: number, month: number, day: number): Date | null {
  const start = new Date(2000, 0, 1);
  // The constructor reads the years 0 to 99 as years of the last century.
  start.setFullYear(year, month - 1, day);
  return start.getMonth() === month - 1 && start.getDate() === day ? start : null;
}
