import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { type Durations, addDurations } from "../../domain/stats/time-series.ts";
import {
  type AccountTally,
  HOST_WORDS,
  TRAFFIC_WORDS,
  type TrafficTally,
  totalTally,
} from "../../domain/stats/traffic-tally.ts";
import { type TrafficRow, toTraffic } from "../common/row.ts";
import { ALL_ACCOUNTS } from "../sql/work-counts.ts";
import type { HostFailure, HostTraffic, Store } from "../store.ts";
import { ERASE_EMPTY_HOSTS } from "./counts.ts";
import { type BatchSql, type NamedValues, type Sql, named } from "./machine/sql.ts";
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

// Overwrites an earlier failure whatever its time: the clock may have been ahead then.
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
    tallies.flatMap(([accountSeq, tally]) =>
      Array.from(listOf(tally), (each) => [accountSeq, each] as const),
    );
  const minutes = all((tally) => tally.minutes.values());
  sql.send(ADD_TRAFFIC, [
    sql.stripe,
    minutes.map(([accountSeq]) => accountSeq),
    minutes.map(([, { at }]) => at),
    minutes.map(([, { durations }]) => toArrayText(durations)),
    ...TRAFFIC_WORDS.map((word) => minutes.map(([, { counts }]) => counts[word])),
  ]);
  const hours = all((tally) => tally.hours());
  if (hours.length > 0) {
    sql.send(ADD_HOST_TRAFFIC, [
      sql.stripe,
      hours.map(([accountSeq]) => accountSeq),
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
      failures.map(([accountSeq]) => accountSeq),
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

// Bounds what is read: for counts, and of the durations of the hosts that are shown.
const SUM_ROWS_MAX = 20_000;
const DURATION_ROWS_MAX = 8000;

const WITHIN = `account_seq = @accountSeq::bigint AND at >= @from::bigint`;

/**
 * The hosts that did the most harm, then those that fail more often: what was sent to them within the time, and the
 * present state of deliveries, whenever they came to it. The facts stand in each row, and alone where there is no host.
 */
const WORST_HOSTS = named(`
  WITH sent AS MATERIALIZED (
    SELECT host, attempts, succeeded FROM host_traffic WHERE ${WITHIN} ORDER BY at DESC LIMIT ${SUM_ROWS_MAX + 1}
  ), counted AS MATERIALIZED (
    SELECT host, given_up, refused, retrying FROM host_counts
    WHERE account_seq BETWEEN @firstAccount::bigint AND @lastAccount::bigint
    ORDER BY account_seq, host LIMIT ${SUM_ROWS_MAX + 1}
  ), traffic AS (
    SELECT host, sum(attempts) AS attempts, sum(succeeded) AS succeeded FROM sent GROUP BY host
  ), counts AS (
    SELECT host, sum(given_up) AS given_up, sum(refused) AS refused, sum(retrying) AS retrying
    FROM counted GROUP BY host
  ), hosts AS (
    SELECT host, coalesce(attempts, 0) AS attempts, coalesce(succeeded, 0) AS succeeded,
      coalesce(given_up, 0) AS given_up, coalesce(refused, 0) AS refused, coalesce(retrying, 0) AS retrying
    FROM traffic FULL JOIN counts USING (host)
    WHERE traffic.host IS NOT NULL OR (NOT @onlySent::boolean AND given_up + refused > 0)
  ), worst AS (
    SELECT * FROM hosts
    ORDER BY given_up + refused + retrying DESC, coalesce(succeeded / nullif(attempts, 0), 1), attempts DESC, host
    LIMIT @limit
  )
  SELECT host, attempts, succeeded, given_up AS "givenUp", refused, retrying,
    (SELECT count(*) FROM hosts) AS "hostCount",
    greatest((SELECT count(*) FROM sent), (SELECT count(*) FROM counted)) AS "rowCount"
  FROM (SELECT) AS facts LEFT JOIN worst ON true`);

/**
 * Reads the same rows as the sums. It also looks at those of hosts that are not asked for, and there may be any number
 * of them.
 */
const SUM_DURATIONS = named(`
  WITH shown AS MATERIALIZED (
    SELECT host, durations
    FROM (SELECT host, durations FROM host_traffic WHERE ${WITHIN} ORDER BY at DESC LIMIT ${SUM_ROWS_MAX}) AS examined
    WHERE host = ANY(@hosts::text[])
    LIMIT ${DURATION_ROWS_MAX + 1}
  )
  SELECT host, bucket - 1 AS bucket, sum(count) AS count, (SELECT count(*) FROM shown) AS "rowCount"
  FROM shown CROSS JOIN unnest(durations) WITH ORDINALITY AS d (count, bucket)
  WHERE count > 0
  GROUP BY host, bucket
  ORDER BY bucket`);

/** The newest that the stripes know, and its task while that exists. */
const FIND_FAILURES = named(`
  SELECT DISTINCT ON (f.host) f.host, f.ended_at AS "endedAt", f.error, f.http_status AS "httpStatus", (
    SELECT t.id FROM tasks AS t
    WHERE t.seq = f.task_seq
      -- A database that was moved from a file may have given the seq of an erased task to another one.
      AND EXISTS (SELECT 1 FROM attempts AS a WHERE a.task_seq = t.seq AND a.host = f.host AND a.ended_at = f.ended_at)
  ) AS "taskId"
  FROM host_failures AS f
  WHERE f.account_seq = @accountSeq::bigint AND f.host = ANY(@hosts::text[]) AND f.ended_at >= @from::bigint
  ORDER BY f.host, f.ended_at DESC`);

type HostSums = Omit<HostTraffic, "durations" | "lastFailure">;

interface SumRow extends Omit<HostSums, "host"> {
  /** Null when there is no host. */
  readonly host: string | null;
  /** How many hosts there are. */
  readonly hostCount: number;
  /** How many rows were read of a table, at most. */
  readonly rowCount: number;
}

interface DurationRow {
  readonly host: string;
  readonly bucket: number;
  readonly count: number;
  readonly rowCount: number;
}

export function hostTrafficReads(sql: Sql) {
  return {
    async listHostTraffic({ scope, since, limit, only }) {
      const within = { accountSeq: scope ?? ALL_ACCOUNTS, from: since - (since % HOUR_MS) };
      const onlySent = only === "sent";
      // A range has an index, where one account or all has none.
      const counted = { firstAccount: scope ?? 0, lastAccount: scope ?? Number.MAX_SAFE_INTEGER };
      const rows = await WORST_HOSTS.all<SumRow>(sql, { ...within, ...counted, onlySent, limit });
      const sums = rows.flatMap(
        ({ hostCount: _hosts, rowCount: _rows, host, ...sum }): HostSums[] =>
          host === null ? [] : [{ host, ...sum }],
      );
      const details = await readDetails(sql, { ...within, hosts: sums.map(({ host }) => host) });
      const [facts] = rows;
      const isRead = (facts?.rowCount ?? 0) <= SUM_ROWS_MAX && details.isWhole;
      return {
        hosts: sums.map((sum) => ({
          ...sum,
          durations: details.durations.get(sum.host) ?? new Map<number, number>(),
          lastFailure: details.failures.get(sum.host) ?? null,
        })),
        hasMore: !isRead || (facts?.hostCount ?? 0) > limit,
      };
    },
  } satisfies Partial<Store>;
}

/** How long attempts took, and which failed last, by host. */
async function readDetails(sql: Sql, of: NamedValues) {
  const [buckets, failed] = await Promise.all([
    SUM_DURATIONS.all<DurationRow>(sql, of),
    FIND_FAILURES.all<HostFailure & { readonly host: string }>(sql, of),
  ]);
  const durations = new Map<string, Map<number, number>>();
  for (const { host, bucket, count } of buckets) {
    durations.set(host, (durations.get(host) ?? new Map<number, number>()).set(bucket, count));
  }
  const failures = new Map<string, HostFailure>();
  for (const { host, ...failure } of failed) failures.set(host, failure);
  const isWhole = (buckets[0]?.rowCount ?? 0) <= DURATION_ROWS_MAX;
  return { durations, failures, isWhole };
}
