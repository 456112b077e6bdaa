import { HOUR_MS } from "../../domain/clock/duration.ts";
import type { HostFailure, HostTraffic, Store } from "../store.ts";
import { named, type NamedValues } from "./machine/named.ts";
import type { Sql } from "./machine/sql.ts";
import { ALL_ACCOUNTS } from "./traffic-tally.ts";

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
