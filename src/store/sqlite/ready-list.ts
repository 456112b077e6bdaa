import type { ReadyCursor, ReadyQuery } from "../store.ts";
import { prepareWalk, walkOn, walkSql } from "./filtered-walk.ts";
import { takeRows, type ListPart, type ListTurn } from "./list-turns.ts";
import type { Connection } from "./machine/connection.ts";
import { SUMMARY_COLUMNS, toSummary, type SummaryRow } from "./tasks.ts";

type ReadySource = "all" | "tag" | "type";

// Each written so that its partial index is used: the page begins by a seek.
const RANGES: Readonly<Record<ReadySource, string>> = {
  all: rangeOf("tasks_ready", ""),
  tag: rangeOf("tasks_ready_by_tag", "AND t.tag IS NOT NULL AND t.tag = @tag"),
  type: rangeOf("tasks_ready_by_type", "AND t.type = @type"),
};

function rangeOf(index: string, filter: string): string {
  return `
  FROM tasks AS t INDEXED BY ${index}
  WHERE t.account_seq = @accountId AND t.ready = 1 ${filter}
    AND (t.completed_at, t.seq) > (@completedAt, @seq)
  ORDER BY t.completed_at, t.seq`;
}

/** A list with one filter or none. */
export const LIST_READY_BY = {
  all: listReady("all"),
  tag: listReady("tag"),
  type: listReady("type"),
} as const;

function listReady(source: ReadySource): string {
  return `SELECT ${SUMMARY_COLUMNS}, t.seq ${RANGES[source]} LIMIT @limit`;
}

/** A list with both filters, along the index of one of them. */
export const WALK_READY_BY = { tag: walkReady("tag"), type: walkReady("type") } as const;

function walkReady(source: ReadySource) {
  const candidates = `SELECT t.completed_at, t.seq ${RANGES[source]}`;
  return walkSql({ candidates, passes: "t.tag = @tag AND t.type = @type" });
}

// Rows that are read at once: so many cost the main thread a third of a millisecond.
const SHORT_MAX = 100;

/** True for a page that takes a seek and few rows. */
export function isShortRead({ tag, type, limit }: ReadyQuery): boolean {
  return (tag === null || type === null) && limit <= SHORT_MAX;
}

/** The list of an account's ready tasks. */
export function readyListReads(connection: Connection) {
  const prepare = (sql: string) => connection.prepare<[object], SummaryRow & { seq: number }>(sql);
  const select = {
    all: prepare(LIST_READY_BY.all),
    tag: prepare(LIST_READY_BY.tag),
    type: prepare(LIST_READY_BY.type),
  };
  const byTag = prepareWalk(connection, WALK_READY_BY.tag);
  const byType = prepareWalk(connection, WALK_READY_BY.type);

  return {
    /** A part of a page; a whole one unless there are both filters. */
    listReady: connection.transaction((turn: ReadyQuery & ListTurn): ListPart<ReadyCursor> => {
      const { accountId, tag, type, limit } = turn;
      const { completedAt, seq } = turn.after ?? FIRST;
      const params = { accountId, tag, type, completedAt, seq };
      if (tag !== null && type !== null) {
        // A tag is nearly always the narrower of the two.
        const { taken, end, ...found } = walkOn([byTag, byType], { ...turn, params });
        const reached = end === undefined ? null : { completedAt: end[0], seq: end[1] };
        const next = found.isFull ? (placeOf(taken) ?? turn.after) : reached;
        return { tasks: taken.map(toSummary), next, ...found };
      }
      const source = tag !== null ? "tag" : type !== null ? "type" : "all";
      // One row more than asked for tells whether there is a next page.
      const rows = select[source].iterate({ ...params, limit: limit + 1 });
      const { taken, bytes, isFull } = takeRows(rows, turn);
      return { tasks: taken.map(toSummary), bytes, next: isFull ? placeOf(taken) : null, isFull };
    }),
  };
}

const FIRST = { completedAt: -1, seq: -1 };

function placeOf(
  rows: readonly { readonly completed_at: number | null; readonly seq: number }[],
): ReadyCursor | null {
  const last = rows.at(-1);
  return last === undefined ? null : { completedAt: last.completed_at ?? 0, seq: last.seq };
}
