import { type DeliveryFilter } from "../../domain/webhook/delivery.ts";
import type { NamedValues, Sql } from "./machine/sql.ts";
import { toUuid } from "./task-columns.ts";

/**
 * A filter in SQL. A delivery is looked at in the place of its newest attempt, so that a walk through the attempts
 * meets each delivery once: an open one in `outbox`, an ended one in `attempts`.
 */

/** A span of attempts by their seq, including both ends. */
export interface AttemptRange {
  readonly from: number;
  readonly to: number;
}

/** All attempts. */
export const ALL_ATTEMPTS: AttemptRange = { from: 1, to: Number.MAX_SAFE_INTEGER };

/** The parameters of {@link PASSES_OPEN} and {@link PASSES_ENDED}. */
export type FilterValues = NamedValues;

/** The condition for any delivery, whose newest attempt is `a`; `ended` is the row of its last one that has ended. */
function passes(ended: "a" | "l", state: string): string {
  return `
    a.seq BETWEEN @from AND @to
    AND (@kind::webhook_kind IS NULL OR a.kind = @kind)
    AND (@host::text IS NULL OR a.host = @host)
    AND (@outcome::attempt_outcome IS NULL OR ${ended}.outcome = @outcome)
    AND coalesce(${ended}.ended_at, a.due_at) >= @since
    AND coalesce(${ended}.ended_at, a.due_at) < @until
    AND (@states::text[] IS NULL OR ${state} = ANY (@states))
    AND (@accountSeq::bigint IS NULL OR a.account_seq = @accountSeq)`;
}

/** Each open delivery with its newest attempt `a`, and its last one that has ended, `l`, if there is one. */
export const OPEN_DELIVERIES = `
  outbox AS a
  JOIN deliveries AS d ON d.task_seq = a.task_seq AND d.kind = a.kind
  LEFT JOIN LATERAL (
    SELECT number, outcome, http_status, error, ended_at FROM attempts
    WHERE task_seq = a.task_seq AND kind = a.kind
    ORDER BY seq DESC LIMIT 1
  ) AS l ON true`;

/** The state of an open delivery, as it is shown. */
export const OPEN_STATE = `CASE WHEN a.started_at IS NULL THEN 'scheduled' ELSE 'in_flight' END`;

/** The condition that a delivery in {@link OPEN_DELIVERIES} is in a range and passes a filter. */
export const PASSES_OPEN = passes("l", OPEN_STATE);

/** Each ended delivery with its attempts `a`. */
export const ENDED_DELIVERIES = `
  attempts AS a JOIN deliveries AS d ON d.task_seq = a.task_seq AND d.kind = a.kind`;

/** The condition that an attempt in {@link ENDED_DELIVERIES} is the newest, is in a range and passes a filter. */
export const PASSES_ENDED = `${passes("a", "d.ended::text")}
    AND d.ended IS NOT NULL
    AND a.seq = (SELECT max(n.seq) FROM attempts AS n WHERE n.task_seq = a.task_seq AND n.kind = a.kind)`;

const FIND_ACCOUNT = `SELECT seq FROM accounts WHERE login = $1`;

const NEWEST_ATTEMPTS = `
  SELECT max(a.seq) AS seq
  FROM tasks AS t CROSS JOIN LATERAL (
    SELECT kind, seq FROM outbox WHERE task_seq = t.seq
    UNION ALL
    SELECT kind, seq FROM attempts WHERE task_seq = t.seq
  ) AS a
  WHERE t.id = $1
  GROUP BY a.kind
  ORDER BY seq`;

// No row has it.
const NO_SEQ = -1;

/** A filter as statements take it: their parameters for each range in which something may pass, oldest first. */
export async function readFilter(
  sql: Sql,
  filter: DeliveryFilter,
  within: AttemptRange,
): Promise<readonly FilterValues[]> {
  const { login, kind, host, states, outcome, since, until } = filter;
  const [accountSeq, ranges] = await Promise.all([
    login === null ? null : findAccount(sql, login),
    rangesOf(sql, filter, within),
  ]);
  const bounds = {
    since: since ?? Number.MIN_SAFE_INTEGER,
    until: until ?? Number.MAX_SAFE_INTEGER,
  };
  return ranges.map(({ from, to }) => ({
    from,
    to,
    kind,
    host,
    outcome,
    states,
    accountSeq,
    ...bounds,
  }));
}

async function findAccount(sql: Sql, login: string): Promise<number> {
  return (await sql.get<{ seq: number }>(FIND_ACCOUNT, [login]))?.seq ?? NO_SEQ;
}

// A task has one newest attempt of each kind: nothing else in the log is read.
async function rangesOf(
  sql: Sql,
  { taskId }: DeliveryFilter,
  within: AttemptRange,
): Promise<readonly AttemptRange[]> {
  if (taskId === null) return [within];
  const newest = await sql.all<{ seq: number }>(NEWEST_ATTEMPTS, [toUuid(taskId)]);
  return newest
    .filter(({ seq }) => seq >= within.from && seq <= within.to)
    .map(({ seq }) => ({ from: seq, to: seq }));
}
