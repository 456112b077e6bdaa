import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { type Durations, addDurations } from "../../domain/stats/time-series.ts";
import { type TrafficRow, toTraffic } from "../common/row.ts";
import type { HostFailure, HostTraffic, Traffic, TrafficQuery } from "../store.ts";
import { eachDialect, statement } from "./statement.ts";
import { all, together, type StoreUseCases, type UseCase } from "./use-case.ts";
import { ALL_ACCOUNTS } from "./work-counts.ts";

const STEPS_WITHIN = `
  account_seq = @accountId::bigint AND step_ms = ANY(@stepsMs::int[]) AND at >= @from::bigint AND at < @to::bigint`;

/**
 * One statement, because minutes may be folded between two reads. On PostgreSQL a row is the sum of all stripes. Their
 * histograms are added up by {@link toSteps}, five times faster.
 */
export const SELECT_TRAFFIC = eachDialect({
  sqlite: `
    SELECT at, step_ms AS stepMs, posted, completed, failed, cancelled, first_attempts AS firstAttempts,
      first_delivered AS firstDelivered, delivered, given_up AS givenUp, refused, queued,
      oldest_ms AS oldestMs, durations_text AS durationsText
    FROM traffic
    WHERE ${STEPS_WITHIN}
    ORDER BY at, step_ms DESC`,
  postgres: `
    SELECT at, step_ms AS "stepMs", sum(posted) AS posted, sum(completed) AS completed, sum(failed) AS failed,
      sum(cancelled) AS cancelled, sum(first_attempts) AS "firstAttempts", sum(first_delivered) AS "firstDelivered",
      sum(delivered) AS delivered, sum(given_up) AS "givenUp", sum(refused) AS refused, max(queued) AS queued,
      max(oldest_ms) AS "oldestMs", string_agg(durations::text, ' ') AS "durationsText"
    FROM traffic
    WHERE ${STEPS_WITHIN}
    GROUP BY at, step_ms
    ORDER BY at, step_ms DESC`,
});

/** Returns the rows for {@link toSteps}, oldest first. */
export function* readTraffic({ scope, from, to }: TrafficQuery): UseCase<readonly TrafficRow[]> {
  const accountId = scope ?? ALL_ACCOUNTS;
  return yield* all(SELECT_TRAFFIC, { accountId, stepsMs: [HOUR_MS, MINUTE_MS], from, to });
}

/** Converts the rows. To be called on the thread that uses them: 30,000 objects are slow to pass between threads. */
export function toSteps(rows: readonly TrafficRow[]): Traffic {
  return toTraffic(rows, parseDurations);
}

/** Adds up histograms: a JSON array, or arrays as PostgreSQL writes them, with spaces between. */
export function parseDurations(text: string): Durations {
  // Only durations are written there.
  if (text.startsWith("[")) return JSON.parse(text) as Durations;
  const sum: Durations = [];
  for (const array of text.split(" ")) {
    if (array !== "{}") addDurations(sum, array.slice(1, -1).split(",").map(Number));
  }
  return sum;
}

// Some 10 ms each (measured in SQLite with a million tasks): for counts, and for the durations of the hosts that are shown.
const SUM_ROWS_MAX = 20_000;
const DURATION_ROWS_MAX = 8000;

const WITHIN = `account_seq = @accountId::bigint AND at >= @from::bigint`;

/**
 * The hosts that did the most harm, then those that fail more often: what was sent to them within the time, and the
 * present state of deliveries, whenever they came to it. The facts stand in each row, and alone if no host is found.
 */
export const WORST_HOSTS = statement(`
  WITH sent AS MATERIALIZED (
    SELECT host, attempts, succeeded FROM host_traffic WHERE ${WITHIN} ORDER BY at DESC LIMIT ${SUM_ROWS_MAX + 1}
  ), counted AS MATERIALIZED (
    SELECT host, given_up, refused, retrying FROM host_counts
    WHERE account_seq BETWEEN @firstAccount::bigint AND @lastAccount::bigint
    ORDER BY account_seq, host LIMIT ${SUM_ROWS_MAX + 1}
  ), hosts AS MATERIALIZED (
    SELECT host, sum(attempts) AS attempts, sum(succeeded) AS succeeded,
      sum(given_up) AS given_up, sum(refused) AS refused, sum(retrying) AS retrying
    FROM (
      SELECT host, 1 AS is_sent, attempts, succeeded, 0 AS given_up, 0 AS refused, 0 AS retrying FROM sent
      UNION ALL SELECT host, 0, 0, 0, given_up, refused, retrying FROM counted
    ) AS facts
    GROUP BY host
    HAVING max(is_sent) = 1 OR (@onlySent::int = 0 AND sum(given_up) + sum(refused) > 0)
  ), worst AS (
    SELECT * FROM hosts
    ORDER BY given_up + refused + retrying DESC, coalesce(1.0 * succeeded / nullif(attempts, 0), 1), attempts DESC, host
    LIMIT @limit
  )
  SELECT host, attempts, succeeded, given_up AS "givenUp", refused, retrying,
    (SELECT count(*) FROM hosts) AS "hostCount", (SELECT count(*) FROM sent) AS "sentRows",
    (SELECT count(*) FROM counted) AS "countedRows"
  FROM (SELECT 1) AS facts LEFT JOIN worst ON true`);

// Reads the same rows as the sums, also of any number of hosts that are not shown.
const EXAMINED = (durations: string): string => `
  SELECT host, ${durations}
  FROM (SELECT host, ${durations} FROM host_traffic WHERE ${WITHIN} ORDER BY at DESC LIMIT ${SUM_ROWS_MAX}) AS examined
  WHERE host = ANY(@hosts::text[])
  LIMIT ${DURATION_ROWS_MAX + 1}`;

/** The histograms of hosts, each in one row or several. */
export const HOST_DURATIONS = eachDialect({
  sqlite: `
    SELECT host, durations_text AS durationsText, count(*) OVER () AS rowCount FROM (${EXAMINED("durations_text")})`,
  postgres: `
    WITH shown AS MATERIALIZED (${EXAMINED("durations")})
    SELECT host, array_agg(count ORDER BY bucket)::text AS "durationsText", (SELECT count(*) FROM shown) AS "rowCount"
    FROM (
      SELECT host, bucket, sum(count)::bigint AS count
      FROM shown CROSS JOIN unnest(durations) WITH ORDINALITY AS d (count, bucket)
      GROUP BY host, bucket
    ) AS sums
    GROUP BY host`,
});

/** The newest failure of each host, and its task while that exists: another task may have got its seq since. */
const failures = (first: string): string => `
  SELECT ${first} f.host, f.ended_at AS "endedAt", f.error, f.http_status AS "httpStatus", (
    SELECT t.id FROM tasks AS t
    WHERE t.seq = f.task_seq
      AND EXISTS (SELECT 1 FROM attempts AS a WHERE a.task_seq = t.seq AND a.host = f.host AND a.ended_at = f.ended_at)
  ) AS "taskId"
  FROM host_failures AS f
  WHERE f.account_seq = @accountId::bigint AND f.host = ANY(@hosts::text[]) AND f.ended_at >= @from::bigint`;

export const HOST_FAILURES = eachDialect({
  sqlite: failures(""),
  postgres: `${failures("DISTINCT ON (f.host)")} ORDER BY f.host, f.ended_at DESC`,
});

type HostSums = Omit<HostTraffic, "durations" | "lastFailure">;

interface SumRow extends Omit<HostSums, "host"> {
  /** Null if no host is found. */
  readonly host: string | null;
  readonly hostCount: number;
  readonly sentRows: number;
  readonly countedRows: number;
}

interface DurationRow {
  readonly host: string;
  readonly durationsText: string;
  readonly rowCount: number;
}

export const hostTrafficReads = {
  *listHostTraffic({ scope, since, limit, only }) {
    const accountId = scope ?? ALL_ACCOUNTS;
    const from = since - (since % HOUR_MS);
    const onlySent = only === "sent" ? 1 : 0;
    // A range uses the index. A condition for one account or all does not.
    const counted = { firstAccount: scope ?? 0, lastAccount: scope ?? Number.MAX_SAFE_INTEGER };
    const rows = yield* all<SumRow>(WORST_HOSTS, { accountId, from, ...counted, onlySent, limit });
    const sums = rows.flatMap(
      ({ hostCount: _h, sentRows: _s, countedRows: _c, host, ...sum }): HostSums[] =>
        host === null ? [] : [{ host, ...sum }],
    );
    const shown = { accountId, from, hosts: sums.map(({ host }) => host) };
    const [durationRows, failed] = yield* together(
      all<DurationRow>(HOST_DURATIONS, shown),
      all<HostFailure & { readonly host: string }>(HOST_FAILURES, shown),
    );
    const durations = new Map(sums.map(({ host }): [string, Durations] => [host, []]));
    for (const { host, durationsText } of durationRows) {
      addDurations(durations.get(host) ?? [], parseDurations(durationsText));
    }
    const lastFailures = new Map(failed.map(({ host, ...failure }) => [host, failure]));
    const { hostCount = 0, sentRows = 0, countedRows = 0 } = rows[0] ?? {};
    const isWhole =
      Math.max(sentRows, countedRows) <= SUM_ROWS_MAX &&
      (durationRows[0]?.rowCount ?? 0) <= DURATION_ROWS_MAX;
    return {
      hosts: sums.map((sum) => ({
        ...sum,
        durations: toBuckets(durations.get(sum.host) ?? []),
        lastFailure: lastFailures.get(sum.host) ?? null,
      })),
      hasMore: !isWhole || hostCount > limit,
    };
  },
} satisfies StoreUseCases;

function toBuckets(durations: Durations): ReadonlyMap<number, number> {
  return new Map([...durations.entries()].filter(([, count]) => count > 0));
}
