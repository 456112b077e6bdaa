import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import type { Durations } from "../../domain/stats/time-series.ts";
import {
  type AccountTally,
  HOST_WORDS,
  TRAFFIC_WORDS,
  type TrafficTally,
  totalTally,
} from "../../domain/stats/traffic-tally.ts";
import { ALL_ACCOUNTS } from "../sql/work-counts.ts";
import { ERASE_EMPTY_HOSTS } from "./counts.ts";
import type { BatchSql } from "./machine/sql.ts";
import { type SetSteps, each } from "./steps.ts";

/** The columns of an upsert's assignments that add to what is stored in `t`. */
export function additions(columns: readonly string[]): string {
  return columns.map((column) => `${column} = t.${column} + excluded.${column}`).join(", ");
}

/** Adds two histograms, bucket by bucket. */
export const ADD_DURATIONS = `
  durations = CASE WHEN excluded.durations = '{}' THEN t.durations ELSE (
    SELECT array_agg(coalesce(one, 0) + coalesce(other, 0) ORDER BY place)
    FROM unnest(t.durations, excluded.durations) WITH ORDINALITY AS sums (one, other, place)
  ) END`;

// $1 is the stripe; the columns follow, the histograms as text, because unnest takes nested arrays apart.
const ADD_TRAFFIC = `
  INSERT INTO traffic AS t (account_seq, step_ms, at, stripe, durations, ${TRAFFIC_WORDS.join(", ")})
  SELECT account_seq, ${MINUTE_MS}, at, $1, durations::bigint[], ${TRAFFIC_WORDS.join(", ")}
  FROM unnest($2::bigint[], $3::bigint[], $4::text[], ${TRAFFIC_WORDS.map((_, i) => `$${i + 5}::bigint[]`).join(", ")})
    AS a (account_seq, at, durations, ${TRAFFIC_WORDS.join(", ")})
  ON CONFLICT (account_seq, step_ms, at, stripe) DO UPDATE SET ${additions(TRAFFIC_WORDS)}, ${ADD_DURATIONS}`;

const ADD_HOST_TRAFFIC = `
  INSERT INTO host_traffic AS t (account_seq, at, host, stripe, durations, ${HOST_WORDS.join(", ")})
  SELECT account_seq, at, host, $1, durations::bigint[], ${HOST_WORDS.join(", ")}
  FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
    AS a (account_seq, at, host, durations, ${HOST_WORDS.join(", ")})
  ON CONFLICT (account_seq, at, host, stripe) DO UPDATE SET ${additions(HOST_WORDS)}, ${ADD_DURATIONS}`;

// Overwrites an earlier failure of any time: the clock may have been ahead then.
const KEEP_HOST_FAILURES = `
  INSERT INTO host_failures (account_seq, host, stripe, ended_at, error, http_status, task_seq)
  SELECT account_seq, host, $1, ended_at, error, http_status, task_seq
  FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::int[], $7::bigint[])
    AS a (account_seq, host, ended_at, error, http_status, task_seq)
  ON CONFLICT (account_seq, host, stripe) DO UPDATE
  SET ended_at = excluded.ended_at, error = excluded.error, http_status = excluded.http_status,
      task_seq = excluded.task_seq`;

/** Sends what a batch adds to the traffic: for each account, and for all together. */
export function sendTraffic(sql: BatchSql, traffic: TrafficTally): void {
  const accounts = traffic.take();
  if (accounts.size === 0) return;
  const tallies = [...accounts, [ALL_ACCOUNTS, totalTally(accounts)] as const];
  const all = <Kind>(listOf: (tally: AccountTally) => Iterable<Kind>) =>
    tallies.flatMap(([accountId, tally]) =>
      Array.from(listOf(tally), (each) => [accountId, each] as const),
    );
  const minutes = all((tally) => tally.minutes.values());
  sql.send(ADD_TRAFFIC, [
    sql.stripe,
    minutes.map(([accountId]) => accountId),
    minutes.map(([, { at }]) => at),
    minutes.map(([, { durations }]) => toArrayText(durations)),
    ...TRAFFIC_WORDS.map((word) => minutes.map(([, { counts }]) => counts[word])),
  ]);
  const hours = all((tally) => tally.hours());
  if (hours.length > 0) {
    sql.send(ADD_HOST_TRAFFIC, [
      sql.stripe,
      hours.map(([accountId]) => accountId),
      hours.map(([, { at }]) => at),
      hours.map(([, { host }]) => host),
      hours.map(([, { durations }]) => toArrayText(durations)),
      ...HOST_WORDS.map((word) => hours.map(([, { counts }]) => counts[word])),
    ]);
  }
  const failures = all((tally) => tally.failures.values());
  if (failures.length > 0) {
    sql.send(KEEP_HOST_FAILURES, [
      sql.stripe,
      failures.map(([accountId]) => accountId),
      failures.map(([, { attempt }]) => attempt.host),
      failures.map(([, { endedAt }]) => endedAt),
      failures.map(([, { result }]) => result.error),
      failures.map(([, { result }]) => result.httpStatus),
      failures.map(([, { attempt }]) => attempt.taskSeq),
    ]);
  }
}

/** A histogram as PostgreSQL writes arrays; buckets that were never counted in are empty. */
export function toArrayText(durations: Durations): string {
  return `{${Array.from(durations, (count) => count ?? 0).join(",")}}`;
}

// 16 hours of one account, or one hour of 16 accounts; fewer where several stripes have counted.
const FOLDED_ROWS_MAX = 1000;

const SUMS = TRAFFIC_WORDS.map((word) => `sum(${word}) AS ${word}`).join(", ");

// The minutes of all stripes become hours of the batch's own, for which no other batch waits. A minute that another batch is
// just adding to is left to a later step.
const FOLD_TRAFFIC = `
  WITH due AS MATERIALIZED (
    SELECT account_seq, at, stripe FROM traffic
    WHERE step_ms = ${MINUTE_MS} AND at < $1
    ORDER BY at, account_seq LIMIT ${FOLDED_ROWS_MAX} FOR UPDATE SKIP LOCKED
  ), gone AS (
    DELETE FROM traffic AS t USING due
    WHERE t.account_seq = due.account_seq AND t.step_ms = ${MINUTE_MS} AND t.at = due.at AND t.stripe = due.stripe
    RETURNING t.*, t.at - t.at % ${HOUR_MS} AS hour
  ), sums AS (
    SELECT account_seq, hour, max(queued) AS queued, max(oldest_ms) AS oldest_ms, ${SUMS}
    FROM gone GROUP BY account_seq, hour
  ), buckets AS (
    SELECT account_seq, hour, bucket, sum(count)::bigint AS count
    FROM gone CROSS JOIN unnest(durations) WITH ORDINALITY AS d (count, bucket)
    GROUP BY account_seq, hour, bucket
  ), durations AS (
    SELECT account_seq, hour, array_agg(count ORDER BY bucket) AS durations FROM buckets GROUP BY account_seq, hour
  ), folded AS (
    INSERT INTO traffic AS t
      (account_seq, step_ms, at, stripe, queued, oldest_ms, durations, ${TRAFFIC_WORDS.join(", ")})
    SELECT account_seq, ${HOUR_MS}, hour, $2, queued, oldest_ms, coalesce(durations, '{}'), ${TRAFFIC_WORDS.join(", ")}
    FROM sums LEFT JOIN durations USING (account_seq, hour)
    ON CONFLICT (account_seq, step_ms, at, stripe) DO UPDATE
    SET ${additions(TRAFFIC_WORDS)}, ${ADD_DURATIONS},
        queued = greatest(t.queued, excluded.queued), oldest_ms = greatest(t.oldest_ms, excluded.oldest_ms)
  )
  SELECT count(*) AS count FROM gone`;

export function trafficFoldWrites(sql: BatchSql) {
  return {
    foldTraffic: each(async ({ minutesBefore }) => {
      const folded = await sql.get<{ count: number }>(FOLD_TRAFFIC, [minutesBefore, sql.stripe]);
      const count = folded?.count ?? 0;
      if (count === FOLDED_ROWS_MAX) return "more";
      // An hour is over: a good time to look through all hosts.
      if (count > 0) sql.send(ERASE_EMPTY_HOSTS);
      return "done";
    }),
  } satisfies SetSteps;
}
