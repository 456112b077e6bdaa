import { HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";
import { type Durations, addDurations } from "../../domain/stats/time-series.ts";
import { TRAFFIC_WORDS } from "../../domain/stats/traffic-tally.ts";
import { type TrafficRow, toTraffic } from "../common/row.ts";
import { ALL_ACCOUNTS } from "../sql/work-counts.ts";
import type {
  HostFailure,
  HostTraffic,
  HostTrafficQuery,
  Traffic,
  TrafficQuery,
} from "../store.ts";
import { additions, parseDurations, toDurationText } from "./counts.ts";
import { type Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

export const NEXT_MINUTE = `
  SELECT account_seq AS accountSeq, at FROM traffic INDEXED BY traffic_by_age
  WHERE step_ms = ${MINUTE_MS} AND at < ?
  ORDER BY at
  LIMIT 1`;

const WITHIN = `
  account_seq = @accountSeq AND step_ms = ${MINUTE_MS} AND at >= @hour AND at < @until`;

export const FOLD_TRAFFIC = `
  INSERT INTO traffic
    (account_seq, step_ms, at, durations_text, queued, oldest_ms, ${TRAFFIC_WORDS.join(", ")})
  SELECT @accountSeq, ${HOUR_MS}, @hour, @durationsText, max(queued), max(oldest_ms),
    ${TRAFFIC_WORDS.map((column) => `sum(${column})`).join(", ")}
  FROM traffic
  WHERE ${WITHIN}
  ON CONFLICT (account_seq, step_ms, at) DO UPDATE
  SET ${additions(TRAFFIC_WORDS)}, durations_text = excluded.durations_text,
      queued = max(queued, excluded.queued), oldest_ms = max(oldest_ms, excluded.oldest_ms)`;

/** The durations of minutes, and of the hour that they are folded into. */
export const FOLDED_DURATIONS = `
  SELECT durations_text FROM traffic WHERE ${WITHIN}
  UNION ALL
  SELECT durations_text FROM traffic
  WHERE account_seq = @accountSeq AND step_ms = ${HOUR_MS} AND at = @hour`;

export const ERASE_FOLDED = `DELETE FROM traffic WHERE ${WITHIN}`;

export const SELECT_TRAFFIC = `
  SELECT at, step_ms AS stepMs, posted, completed, failed, cancelled, first_attempts AS firstAttempts,
    first_delivered AS firstDelivered, delivered, given_up AS givenUp, refused, queued,
    oldest_ms AS oldestMs, durations_text AS durationsText
  FROM traffic
  WHERE account_seq = @accountSeq AND step_ms = @stepMs AND at >= @from AND at < @to
  ORDER BY at`;

// 16 hours of one account, or one hour of 16 accounts.
const FOLDED_ROWS_MAX = 1000;

export function trafficFoldWrites(connection: Connection) {
  const next = connection.prepare<[number], { accountSeq: number; at: number }>(NEXT_MINUTE);
  const findDurations = connection.prepare<[object], string>(FOLDED_DURATIONS).pluck();
  const fold = connection.prepare<[object]>(FOLD_TRAFFIC);
  const erase = connection.prepare<[object]>(ERASE_FOLDED);

  /** Folds the minutes of an account's hour; answers how many there were. */
  function foldHour(which: { accountSeq: number; hour: number; until: number }): number {
    const durations: Durations = [];
    for (const text of findDurations.all(which)) addDurations(durations, parseDurations(text));
    fold.run({ ...which, durationsText: toDurationText(durations) });
    return erase.run(which).changes;
  }

  return {
    foldTraffic({ minutesBefore }) {
      for (let folded = 0; folded < FOLDED_ROWS_MAX;) {
        const first = next.get(minutesBefore);
        if (first === undefined) return "done";
        const hour = first.at - (first.at % HOUR_MS);
        const until = Math.min(hour + HOUR_MS, minutesBefore);
        folded += foldHour({ accountSeq: first.accountSeq, hour, until });
      }
      return "more";
    },
  } satisfies Steps;
}

export function trafficReads(connection: Connection) {
  const steps = connection.prepare<[object], TrafficRow>(SELECT_TRAFFIC);

  return {
    // One snapshot: minutes may be folded between two separate reads.
    readTraffic: connection.transaction(({ scope, from, to }: TrafficQuery) => {
      const which = { accountSeq: scope ?? ALL_ACCOUNTS, from, to };
      return [HOUR_MS, MINUTE_MS].flatMap((stepMs) => steps.all({ ...which, stepMs }));
    }),
  };
}

/** Converts the rows. Done where they are used: 30,000 objects take long from one thread to another. */
export function sortTraffic(rows: readonly TrafficRow[]): Traffic {
  const sorted = rows.toSorted((one, other) => one.at - other.at);
  return toTraffic(sorted, parseDurations);
}

export const SELECT_HOST_TRAFFIC = `
  SELECT host, attempts, succeeded FROM host_traffic
  WHERE account_seq = @accountSeq AND at >= @from
  ORDER BY at DESC
  LIMIT @max`;

/**
 * Reads the same rows as the sums. It also looks at those of hosts that are not asked for, and there may be any number
 * of them.
 */
export const SELECT_HOST_DURATIONS = `
  SELECT host, durations_text
  FROM (
    SELECT host, durations_text FROM host_traffic
    WHERE account_seq = @accountSeq AND at >= @from
    ORDER BY at DESC
    LIMIT @examined
  )
  WHERE host IN (SELECT value FROM json_each(@hosts))
  LIMIT @max`;

export const SELECT_HOST_COUNTS = `
  SELECT host, given_up AS givenUp, refused, retrying FROM host_counts
  WHERE account_seq = @accountSeq
  LIMIT @max`;

/** The same for all accounts. */
export const SUM_HOST_COUNTS = `
  SELECT host, sum(given_up) AS givenUp, sum(refused) AS refused, sum(retrying) AS retrying
  FROM (SELECT host, given_up, refused, retrying FROM host_counts LIMIT @max)
  GROUP BY host`;

export const COUNT_HOST_ROWS = `SELECT count(*) FROM (SELECT 1 FROM host_counts LIMIT @max)`;

/** Finds its task while that exists: an erased task leaves its seq to another one. */
export const FIND_HOST_FAILURE = `
  SELECT f.ended_at AS endedAt, f.error, f.http_status AS httpStatus, (
    SELECT t.id FROM tasks AS t
    WHERE t.seq = f.task_seq
      AND EXISTS (
        SELECT 1 FROM attempts
        WHERE task_seq = t.seq AND host = f.host AND ended_at = f.ended_at
      )
  ) AS taskId
  FROM host_failures AS f
  WHERE f.account_seq = @accountSeq AND f.host = @host AND f.ended_at >= @from`;

// Some 10 ms each (measured with a million tasks): for counts, and for parsing the durations of the hosts that are
// shown.
const SUM_ROWS_MAX = 20_000;
const DURATION_ROWS_MAX = 8000;

type HostCounts = Pick<HostTraffic, "host" | "givenUp" | "refused" | "retrying">;

interface HostSums extends HostCounts {
  attempts: number;
  succeeded: number;
}

interface Within {
  readonly accountSeq: number;
  readonly from: number;
  readonly onlySent: boolean;
}

export function hostTrafficReads(connection: Connection) {
  const readSums = sumReader(connection);
  const readCounts = countReader(connection);
  const readDurations = durationReader(connection);
  const findFailure = connection.prepare<[object], HostFailure>(FIND_HOST_FAILURE);
  // All steps of the read see one moment.
  const listHostTraffic = connection.transaction((query: HostTrafficQuery) => {
    const { scope, since, limit } = query;
    const from = since - (since % HOUR_MS);
    const accountSeq = scope ?? ALL_ACCOUNTS;
    const within = { accountSeq, from, onlySent: query.only === "sent" };
    const { sums, isWhole: hasAllSums } = readSums(within);
    const hasAllCounts = readCounts(sums, within);
    const shown = [...sums.values()].toSorted(byHarm).slice(0, limit);
    const { durations, isWhole: hasAllDurations } = readDurations(within, shown);
    const hosts = shown.map((sum) => ({
      ...sum,
      durations: durations.get(sum.host) ?? new Map<number, number>(),
      lastFailure: findFailure.get({ accountSeq, from, host: sum.host }) ?? null,
    }));
    const isRead = hasAllSums && hasAllCounts && hasAllDurations;
    return { hosts, hasMore: !isRead || sums.size > limit };
  });

  return { listHostTraffic } satisfies Steps;
}

type SumRow = readonly [host: string, attempts: number, succeeded: number];

function sumReader(connection: Connection) {
  const select = connection.prepare<[object], SumRow>(SELECT_HOST_TRAFFIC).raw();

  return ({ accountSeq, from }: Within) => {
    const sums = new Map<string, HostSums>();
    let left = SUM_ROWS_MAX;
    for (const row of select.iterate({ accountSeq, from, max: SUM_ROWS_MAX + 1 })) {
      if (--left < 0) break;
      const [host, attempts, succeeded] = row;
      const sum = sumOf(sums, host);
      sum.attempts += attempts;
      sum.succeeded += succeeded;
    }
    return { sums, isWhole: left >= 0 };
  };
}

function sumOf(sums: Map<string, HostSums>, host: string): HostSums {
  const known = sums.get(host);
  if (known !== undefined) return known;
  const sum = { host, attempts: 0, succeeded: 0, givenUp: 0, refused: 0, retrying: 0 };
  sums.set(host, sum);
  return sum;
}

/** Adds the present state of deliveries, whenever they came to it; false when there was more than may be read. */
function countReader(connection: Connection) {
  const ofAccount = connection.prepare<[object], HostCounts>(SELECT_HOST_COUNTS);
  const ofAll = connection.prepare<[object], HostCounts>(SUM_HOST_COUNTS);
  const countRows = connection.prepare<[object], number>(COUNT_HOST_ROWS).pluck();
  const bound = { max: SUM_ROWS_MAX };
  const beyond = { max: SUM_ROWS_MAX + 1 };

  return (sums: Map<string, HostSums>, { accountSeq, onlySent }: Within): boolean => {
    const isAll = accountSeq === ALL_ACCOUNTS;
    const rows = isAll ? ofAll.all(bound) : ofAccount.all({ accountSeq, ...bound });
    for (const row of rows) {
      const isListed = sums.has(row.host) || (!onlySent && row.givenUp + row.refused > 0);
      if (isListed) Object.assign(sumOf(sums, row.host), row);
    }
    return isAll ? (countRows.get(beyond) ?? 0) <= SUM_ROWS_MAX : rows.length < SUM_ROWS_MAX;
  };
}

function durationReader(connection: Connection) {
  const select = connection
    .prepare<[object], readonly [string, string]>(SELECT_HOST_DURATIONS)
    .raw();

  return ({ accountSeq, from }: Within, shown: readonly HostSums[]) => {
    const sums = new Map(shown.map(({ host }) => [host, [] as Durations]));
    const hosts = JSON.stringify([...sums.keys()]);
    let left = DURATION_ROWS_MAX;
    const bounds = { examined: SUM_ROWS_MAX, max: DURATION_ROWS_MAX + 1 };
    for (const [host, text] of select.iterate({ accountSeq, from, hosts, ...bounds })) {
      if (--left < 0) break;
      addDurations(sums.get(host) ?? [], parseDurations(text));
    }
    const durations = [...sums].map(([host, sum]) => [host, toBuckets(sum)] as const);
    return { durations: new Map(durations), isWhole: left >= 0 };
  };
}

function toBuckets(durations: Durations): ReadonlyMap<number, number> {
  return new Map([...durations.entries()].filter(([, count]) => count > 0));
}

function byHarm(one: HostSums, other: HostSums): number {
  return (
    harmOf(other) - harmOf(one) ||
    successOf(one) - successOf(other) ||
    other.attempts - one.attempts ||
    (one.host < other.host ? -1 : 1)
  );
}

function harmOf({ givenUp, refused, retrying }: HostSums): number {
  return givenUp + refused + retrying;
}

function successOf({ attempts, succeeded }: HostSums): number {
  return attempts === 0 ? 1 : succeeded / attempts;
}
