import type { Lane, LaneRef, Store } from "../store.ts";
import { isHeld } from "./held-accounts.ts";
import type { Sql } from "./machine/sql.ts";

/**
 * The lanes with something scheduled. `outbox_due` orders the scheduled attempts by account, host, retry count and due
 * time: a walk through it meets the first attempt of each retry count of each lane, with one seek for each, however
 * many attempts wait there.
 */

/** The earliest scheduled attempt of the first retry count that the condition selects. */
function firstOf(condition: string, order: string): string {
  return `(
    SELECT account_seq, host, retry, due_at FROM outbox
    WHERE started_at IS NULL AND ${condition}
    ORDER BY ${order}, due_at LIMIT 1
  )`;
}

const OF_ASKED = `account_seq = a.account_seq AND host = a.host`;

/**
 * For statements with the recursive `asked (account_seq, host, place)`: the retry counts that the lanes `asked` have,
 * each with the time when its earliest attempt is due.
 */
export const QUEUES_OF_ASKED = `
  queues AS (
    SELECT a.place, q.* FROM asked AS a CROSS JOIN LATERAL ${firstOf(OF_ASKED, "retry")} AS q
    UNION ALL
    SELECT a.place, q.* FROM queues AS a CROSS JOIN LATERAL ${firstOf(`${OF_ASKED} AND retry > a.retry`, "retry")} AS q
  )`;

const DUE_TIMES = `
  min(due_at) FILTER (WHERE retry = 0) AS "freshDueAt", min(due_at) FILTER (WHERE retry > 0) AS "retryDueAt"`;

const READ_LANES = `
  WITH RECURSIVE asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS a (account_seq, host, place)
  ), ${QUEUES_OF_ASKED}
  SELECT place - 1 AS place, ${DUE_TIMES} FROM queues GROUP BY place`;

// Measured with 10,000 lanes: see listLanes.
const walk = (of: string): string => `
  WITH RECURSIVE queues AS (
    SELECT q.* FROM ${firstOf(of, "account_seq, host, retry")} AS q
    UNION ALL
    SELECT q.* FROM queues AS w CROSS JOIN LATERAL ${firstOf(
      `(account_seq, host, retry) > (w.account_seq, w.host, w.retry) AND ${of}`,
      "account_seq, host, retry",
    )} AS q
  )
  SELECT account_seq AS "accountId", host, ${DUE_TIMES}
  FROM queues AS w
  WHERE NOT ${isHeld("w.account_seq")}
  GROUP BY account_seq, host
  ORDER BY account_seq, host`;

const LIST_LANES = walk("true");
const LIST_OWN_LANES = walk("account_seq = $1");

/** Reads what is scheduled in these lanes, in their order. */
export async function readLanes(sql: Sql, lanes: readonly LaneRef[]): Promise<readonly Lane[]> {
  const rows = await sql.all<DueTimes & { place: number }>(READ_LANES, [
    lanes.map(({ accountId }) => accountId),
    lanes.map(({ host }) => host),
  ]);
  const byPlace = new Map(rows.map((row) => [row.place, row]));
  return lanes.map(({ accountId, host }, place) => {
    const { freshDueAt, retryDueAt } = byPlace.get(place) ?? NOTHING_DUE;
    return { accountId, host, freshDueAt, retryDueAt };
  });
}

type DueTimes = Pick<Lane, "freshDueAt" | "retryDueAt">;
const NOTHING_DUE: DueTimes = { freshDueAt: null, retryDueAt: null };

export function laneReads(sql: Sql) {
  return {
    listLanes: ({ accountId }) =>
      accountId === "all" ? sql.all<Lane>(LIST_LANES) : sql.all<Lane>(LIST_OWN_LANES, [accountId]),
  } satisfies Partial<Store>;
}
