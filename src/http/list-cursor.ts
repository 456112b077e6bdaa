import type { QueryRule } from "./query.ts";

/** What is paged. A place in one is none in another: they are ordered by different times, or by none. */
export type ListName = "ready" | "tasks" | "search" | "attempts";

/** The last row of a page: a time and a row number. */
export interface ListPlace {
  readonly timeMs: number;
  readonly seq: number;
}

const PLACE = /^(?:ready|tasks|search|attempts)-(\d{1,15})-(\d{1,15})$/;

/** A place in a list as a client sees it: opaque, and safe in a URL. */
export function formatCursor(list: ListName, { timeMs, seq }: ListPlace): string {
  return Buffer.from(`${list}-${timeMs}-${seq}`).toString("base64url");
}

/** The rule for a list's `cursor`: takes only what {@link formatCursor} made for this list. */
export function cursorRule(list: ListName): QueryRule<ListPlace> {
  return {
    parse(text) {
      const match = PLACE.exec(Buffer.from(text, "base64url").toString("latin1"));
      if (match === null) return null;
      const place = { timeMs: Number(match[1]), seq: Number(match[2]) };
      return formatCursor(list, place) === text ? place : null;
    },
    takes: "the next_cursor of an earlier page of this list",
    schema: {
      type: "string",
      pattern: "^[A-Za-z0-9_-]+$",
      examples: [formatCursor(list, { timeMs: Date.parse("2026-01-31T09:00:00.000Z"), seq: 17 })],
    },
    description: "`next_cursor` of the page before, with the same filters.",
  };
}
