import { DELIVERY_KINDS, type DeliveryFilter } from "../../domain/webhook/delivery.ts";
import type { Connection } from "./machine/connection.ts";

/**
 * A filter in SQL. A delivery is looked at in the place of its newest attempt, so that a walk through the attempts
 * meets each delivery once: `attempts AS a` is that attempt, `deliveries AS d` its delivery.
 */

/** A span of attempts by their seq, including both ends. */
export interface AttemptRange {
  readonly from: number;
  readonly to: number;
}

/** The state of a delivery as it is shown; `open` in the table stands for two of them. */
export const SHOWN_STATE = `
  CASE WHEN d.state <> 'open' THEN d.state WHEN a.started_at IS NULL THEN 'scheduled' ELSE 'in_flight' END`;

/** Each delivery with its newest attempt, in the order of the attempts, which CROSS JOIN keeps. */
export const NEWEST_ATTEMPTS = `
  attempts AS a CROSS JOIN deliveries AS d ON d.task_seq = a.task_seq AND d.kind = a.kind`;

/**
 * The condition that a delivery in {@link NEWEST_ATTEMPTS} is in a range and passes a filter. `last` is the alias of
 * its last attempt that has ended.
 */
export function passes(last: "a" | "l"): string {
  return `
    a.seq BETWEEN @from AND @to
    AND (@kind IS NULL OR a.kind = @kind)
    AND (@host IS NULL OR a.host = @host)
    AND (@outcome IS NULL OR ${last}.outcome = @outcome)
    AND coalesce(${last}.ended_at, a.due_at) >= @since
    AND coalesce(${last}.ended_at, a.due_at) < @until
    AND a.seq = (SELECT max(seq) FROM attempts WHERE task_seq = a.task_seq AND kind = a.kind)
    AND (@statesText IS NULL OR ${SHOWN_STATE} IN (SELECT value FROM json_each(@statesText)))
    AND (@accountSeq IS NULL
      OR @accountSeq = (SELECT account_seq FROM tasks WHERE seq = a.task_seq))`;
}

export const FIND_ACCOUNT_SEQ = `SELECT seq FROM accounts WHERE login = ?`;

export const FIND_TASK_SEQ = `SELECT seq FROM tasks WHERE id = ?`;

export const NEWEST_ATTEMPT = `SELECT max(seq) FROM attempts WHERE task_seq = ? AND kind = ?`;

// No row has it.
const NO_SEQ = -1;

/**
 * Converts filters into the parameters that {@link NEWEST_ATTEMPTS} and {@link passes} name, and the ranges in which
 * attempts may pass, within the given bounds; oldest first.
 */
export function filterReader(connection: Connection) {
  const findAccount = connection.prepare<[string], number>(FIND_ACCOUNT_SEQ).pluck();
  const findTask = connection.prepare<[string], number>(FIND_TASK_SEQ).pluck();
  const newest = connection.prepare<[number, string], number | null>(NEWEST_ATTEMPT).pluck();

  // A task has one newest attempt of each kind: nothing else in the log is read.
  function rangesOfTask(id: string, within: AttemptRange): readonly AttemptRange[] {
    const taskSeq = findTask.get(id) ?? NO_SEQ;
    return DELIVERY_KINDS.map((kind) => newest.get(taskSeq, kind) ?? NO_SEQ)
      .filter((seq) => seq >= within.from && seq <= within.to)
      .toSorted((a, b) => a - b)
      .map((seq) => ({ from: seq, to: seq }));
  }

  return (filter: DeliveryFilter, within: AttemptRange) => {
    const { login, taskId, kind, host, states, outcome, since, until } = filter;
    const accountSeq = login === null ? null : (findAccount.get(login) ?? NO_SEQ);
    return {
      params: {
        kind,
        host,
        accountSeq,
        outcome,
        statesText: states === null ? null : JSON.stringify(states),
        since: since ?? Number.MIN_SAFE_INTEGER,
        until: until ?? Number.MAX_SAFE_INTEGER,
      },
      ranges: taskId === null ? [within] : rangesOfTask(taskId, within),
    };
  };
}
