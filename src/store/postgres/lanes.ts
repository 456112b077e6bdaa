import type { Lane, LaneRef, Store } from "../store.ts";
import { isHeld } from "./held-accounts.ts";
import { floorColumns, type LaneLook } from "./lane-floors.ts";
import type { Sql } from "./machine/sql.ts";
import type { NodeMemory } from "./node-memory.ts";

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
 * For statements with the recursive `asked (account_seq, host, place)` and the floors of these lanes as three columns:
 * the retry counts that the lanes have, each with the time when its earliest attempt is due. Of a retry count with a
 * floor, attempts are looked for from there on; retry counts above those are looked for as they come.
 */
export function queuesOfAsked(floors: string): string {
  return `
  floors AS MATERIALIZED (
    SELECT a.account_seq, a.host, a.place, f.retry, f.due_at
    FROM unnest(${floors}) AS f (place, retry, due_at) JOIN asked AS a ON a.place = f.place
  ), above AS (
    SELECT a.place, q.* FROM asked AS a CROSS JOIN LATERAL ${firstOf(
      `${OF_ASKED} AND retry > (SELECT coalesce(max(f.retry), -1) FROM floors AS f WHERE f.place = a.place)`,
      "retry",
    )} AS q
    UNION ALL
    SELECT a.place, q.* FROM above AS a CROSS JOIN LATERAL ${firstOf(`${OF_ASKED} AND retry > a.retry`, "retry")} AS q
  ), queues AS (
    SELECT a.place, q.* FROM floors AS a CROSS JOIN LATERAL ${firstOf(
      `${OF_ASKED} AND retry = a.retry AND due_at >= a.due_at`,
      "retry",
    )} AS q
    UNION ALL
    SELECT * FROM above
  )`;
}

const DUE_TIMES = `
  min(due_at) FILTER (WHERE retry = 0) AS "freshDueAt", min(due_at) FILTER (WHERE retry > 0) AS "retryDueAt"`;

export const READ_LANES = `
  WITH RECURSIVE asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS a (account_seq, host, place)
  ), ${queuesOfAsked("$3::int[], $4::int[], $5::bigint[]")}
  SELECT place - 1 AS place, retry, due_at AS "dueAt" FROM queues`;

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

/** The earliest attempt of a retry count of a lane that was asked for. */
export interface QueueRow {
  /** Of the lane. */
  readonly place: number;
  readonly retry: number;
  readonly dueAt: number;
}

/** Reads what is scheduled in these lanes. */
export function readQueues(
  sql: Sql,
  lanes: readonly LaneRef[],
  look: LaneLook,
): Promise<readonly QueueRow[]> {
  return sql.all<QueueRow>(READ_LANES, [
    lanes.map(({ accountId }) => accountId),
    lanes.map(({ host }) => host),
    ...floorColumns(look),
  ]);
}

/** The lane that has these queues. */
export function laneOf({ accountId, host }: LaneRef, queues: readonly QueueRow[]): Lane {
  const earliest = (of: readonly QueueRow[]): number | null =>
    of.length === 0 ? null : Math.min(...of.map(({ dueAt }) => dueAt));
  return {
    accountId,
    host,
    freshDueAt: earliest(queues.filter(({ retry }) => retry === 0)),
    retryDueAt: earliest(queues.filter(({ retry }) => retry > 0)),
  };
}

export function laneReads(sql: Sql, { laneFloors }: NodeMemory) {
  return {
    async listLanes({ accountId }) {
      const lanes = await (accountId === "all"
        ? sql.all<Lane>(LIST_LANES)
        : sql.all<Lane>(LIST_OWN_LANES, [accountId]));
      laneFloors.found(lanes);
      return lanes;
    },
  } satisfies Partial<Store>;
}
