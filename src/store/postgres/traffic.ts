import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { type Durations, addDurations } from "../../domain/stats/time-series.ts";
import { TRAFFIC_WORDS } from "../../domain/stats/traffic-tally.ts";
import { toTraffic, type TrafficRow } from "../common/traffic-row.ts";
import type { Store } from "../store.ts";
import { ERASE_EMPTY_HOSTS } from "./host-counts.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";
import { ADD_DURATIONS, additions, ALL_ACCOUNTS } from "./traffic-tally.ts";

// 16 hours of one account, or one hour of 16 accounts; fewer where several stripes have counted.
const FOLDED_ROWS_MAX = 1000;

const SUMS = TRAFFIC_WORDS.map((word) => `sum(${word}) AS ${word}`).join(", ");

// The minutes of all stripes become hours of the batch's own, for which nobody else waits. A minute that another batch is
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

// The sums of all stripes. Their histograms are added up where they are used: here it would take five times as long.
const SUM_TRAFFIC = `
  SELECT at, step_ms AS "stepMs", sum(posted) AS posted, sum(completed) AS completed, sum(failed) AS failed,
    sum(cancelled) AS cancelled, sum(first_attempts) AS "firstAttempts", sum(first_delivered) AS "firstDelivered",
    sum(delivered) AS delivered, sum(given_up) AS "givenUp", sum(refused) AS refused, max(queued) AS queued,
    max(oldest_ms) AS "oldestMs", string_agg(durations::text, ' ') AS "durationsText"
  FROM traffic
  WHERE account_seq = $1 AND step_ms = ANY($2::int[]) AND at >= $3 AND at < $4
  GROUP BY at, step_ms
  ORDER BY at, step_ms DESC`;

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

export function trafficReads(sql: Sql) {
  return {
    async findTraffic({ scope, from, to }) {
      const values = [scope ?? ALL_ACCOUNTS, [HOUR_MS, MINUTE_MS], from, to];
      return toTraffic(await sql.all<TrafficRow>(SUM_TRAFFIC, values), sumOf);
    },
  } satisfies Partial<Store>;
}

/** Adds up the histograms of stripes: arrays as PostgreSQL writes them, with spaces between. */
function sumOf(texts: string): Durations {
  const sum: Durations = [];
  for (const text of texts.split(" ")) {
    if (text !== "{}") addDurations(sum, text.slice(1, -1).split(",").map(Number));
  }
  return sum;
}
