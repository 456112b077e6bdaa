import { HOUR_MS } from "../../domain/clock/duration.ts";
import type { Lane, LaneRef, Store } from "../store.ts";
import type { ReadSql, Sql } from "./machine/sql.ts";
import { type LaneLook, type NodeMemory, startColumns, COMMIT_MS_MAX } from "./scan-starts.ts";
import { isSuspended } from "./task-columns.ts";

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
 * For statements with the recursive `asked (account_seq, host, place)` and the starts of these lanes as three columns:
 * the retry counts that the lanes have, each with the time when its earliest attempt is due. Of a retry count with a
 * start, attempts are looked for from there on; retry counts above those are looked for as they come.
 */
export function queuesOfAsked(starts: string): string {
  return `
  starts AS MATERIALIZED (
    SELECT a.account_seq, a.host, a.place, f.retry, f.due_at
    FROM unnest(${starts}) AS f (place, retry, due_at) JOIN asked AS a ON a.place = f.place
  ), above AS (
    SELECT a.place, q.* FROM asked AS a CROSS JOIN LATERAL ${firstOf(
      `${OF_ASKED} AND retry > (SELECT coalesce(max(f.retry), -1) FROM starts AS f WHERE f.place = a.place)`,
      "retry",
    )} AS q
    UNION ALL
    SELECT a.place, q.* FROM above AS a CROSS JOIN LATERAL ${firstOf(`${OF_ASKED} AND retry > a.retry`, "retry")} AS q
  ), queues AS (
    SELECT a.place, q.* FROM starts AS a CROSS JOIN LATERAL ${firstOf(
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
  WHERE NOT ${isSuspended("w.account_seq")}
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
    ...startColumns(look),
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

// Reads what became due in the interval: with a scan each second, about what one second brings. A waiting attempt has
// no node: with this condition, `outbox_by_time` is the only usable index.
export const LIST_DUE_LANES = `
  SELECT account_seq AS "accountId", host, min(due_at) FILTER (WHERE retry = 0) AS "freshDueAt",
    min(due_at) FILTER (WHERE retry > 0) AS "retryDueAt"
  FROM outbox AS o
  WHERE node_seq IS NULL AND due_at > $1 AND due_at <= $2
    AND NOT EXISTS (SELECT 1 FROM accounts AS a WHERE a.seq = o.account_seq AND a.disabled_at IS NOT NULL)
  GROUP BY account_seq, host`;

/** Lanes with due attempts that other nodes left, looked for once a second. */
export function dueLaneReads(sql: ReadSql, { laneStarts }: NodeMemory) {
  return {
    async listDueLanes({ since, until }) {
      const lanes = await sql.all<Lane>(LIST_DUE_LANES, [since, until]);
      laneStarts.found(lanes, until - COMMIT_MS_MAX);
      return lanes;
    },
  } satisfies Partial<Store>;
}

export function laneReads(sql: Sql, { laneStarts }: NodeMemory) {
  return {
    async listLanes({ accountId }) {
      const lanes = await (accountId === "all"
        ? sql.all<Lane>(LIST_LANES)
        : sql.all<Lane>(LIST_OWN_LANES, [accountId]));
      laneStarts.found(lanes);
      return lanes;
    },
  } satisfies Partial<Store>;
}

const COUNT_SENDING_ACCOUNTS = `SELECT count(*) AS accounts FROM accounts WHERE disabled_at IS NULL`;

/**
 * Hosts that delivered something for an account and have been answered since, in the sense of src/store/sqlite: an
 * attempt without an answer in the hour of the last delivery may have come after it. Reads $3 of the newest sums of each
 * account; the most used hosts come first, up to $2.
 */
const LIST_PROVEN = `
  SELECT c.seq AS "accountId", p.host
  FROM accounts AS c CROSS JOIN LATERAL (
    SELECT t.host, sum(t.succeeded) AS succeeded
    FROM (
      SELECT host, at, succeeded FROM host_traffic
      WHERE account_seq = c.seq AND at >= $1
      ORDER BY at DESC
      LIMIT $3
    ) AS t
    WHERE t.succeeded > 0 AND NOT coalesce((
      SELECT f.http_status IS NULL AND f.ended_at >= t.at FROM host_failures AS f
      WHERE f.account_seq = c.seq AND f.host = t.host
      ORDER BY f.ended_at DESC LIMIT 1
    ), false)
    GROUP BY t.host
    ORDER BY succeeded DESC, t.host
    LIMIT $2
  ) AS p
  WHERE c.disabled_at IS NULL
  ORDER BY c.seq, p.succeeded DESC, p.host`;

// The sums that are read for each requested host: most hosts have one in several hours, of each connection that writes.
const EXAMINED_PER_HOST = 8;

export function provenLaneReads(sql: Sql) {
  return {
    async listProvenLanes({ since, max }) {
      const counted = await sql.get<{ accounts: number }>(COUNT_SENDING_ACCOUNTS);
      const each = Math.ceil(max / Math.max(1, counted?.accounts ?? 0));
      const from = since - (since % HOUR_MS);
      return await sql.all<LaneRef>(LIST_PROVEN, [from, each, EXAMINED_PER_HOST * each]);
    },
  } satisfies Partial<Store>;
}
