import { searchWords } from "./task-filter.ts";

const DAY_WORD = /^(after|before):("?)(\d{4})-(\d{2})-(\d{2})\2$/i;

/**
 * The search with its days as exact times. To the API a day is a day in UTC, and readers of the screen mean their
 * own: `after:2030-01-31` is sent as `after:2030-01-30T23:00:00.000Z` from Berlin. Words without a day stay as they
 * are.
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
