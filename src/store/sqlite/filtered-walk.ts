import { LIST_TURN_MAX, takeRows, type ListTurn } from "./list-turns.ts";
import type { Connection } from "./machine/connection.ts";
import { SUMMARY_COLUMNS, type SummaryRow } from "./tasks.ts";

/** The statements that walk along an index and keep what passes the other filters. */
export interface WalkSql {
  readonly select: string;
  /** The place of a turn's last candidate, where it has as many as it may have. */
  readonly last: string;
}

/** `candidates` selects time and seq in the order of the list; `passes` is said of `tasks AS t`. */
export function walkSql({ candidates, passes }: Record<"candidates" | "passes", string>): WalkSql {
  const turn = `(${candidates} LIMIT @turnMax)`;
  return {
    // They are read as they are found, and CROSS JOIN keeps their order.
    select: `
      SELECT ${SUMMARY_COLUMNS}, t.seq
      FROM ${turn} AS p
      CROSS JOIN tasks AS t ON t.seq = p.seq
      WHERE ${passes}
      LIMIT @limit`,
    last: `SELECT * FROM ${turn} LIMIT 1 OFFSET @turnMax - 1`,
  };
}

type WalkRow = SummaryRow & { seq: number };
type PlaceRow = readonly [time: number, seq: number];

/** One way to walk a list. */
export type Walk = ReturnType<typeof prepareWalk>;

export function prepareWalk(connection: Connection, { select, last }: WalkSql) {
  return {
    select: connection.prepare<[object], WalkRow>(select),
    last: connection.prepare<[object], PlaceRow>(last).raw(),
  };
}

/** A turn of a list with several filters. */
export interface WalkTurn extends ListTurn {
  readonly limit: number;
  readonly params: object;
}

/**
 * Takes a turn of a list with several filters, along the first of them that comes to its end within the turn, so that
 * what is rare is not looked for among everything else; along the first where none does. To be called in a transaction.
 */
export function walkOn([first, ...others]: readonly [Walk, ...Walk[]], turn: WalkTurn) {
  const params = { ...turn.params, turnMax: LIST_TURN_MAX, limit: turn.limit + 1 };
  const end = first.last.get(params);
  const narrow = end && others.find((each) => each.last.get(params) === undefined);
  const { taken, ...found } = takeRows((narrow ?? first).select.iterate(params), turn);
  return { ...found, taken, end: narrow === undefined ? end : undefined };
}
