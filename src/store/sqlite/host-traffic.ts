import { addDurations, type Durations } from "../../domain/stats/duration-histogram.ts";
import { HOUR_MS } from "../../domain/stats/time-series.ts";
import type { HostFailure, HostTraffic, HostTrafficPage, HostTrafficQuery } from "../store.ts";
import { LIST_WAITING_ACCOUNTS } from "./attempt-claims.ts";
import { parseDurations } from "./durations.ts";
import type { Connection } from "./machine/connection.ts";
import { ALL_ACCOUNTS } from "./traffic-tally.ts";
import { toAccountSeq } from "./traffic.ts";

export const SELECT_HOST_TRAFFIC = `
  SELECT host, attempts, succeeded FROM host_traffic
  WHERE account_seq = @accountSeq AND at >= @from
  ORDER BY at DESC
  LIMIT @max`;

/** Of the same rows as the sums: those of hosts that are not asked for are looked at too, and may be without end. */
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

/** How many there are of what a word of `task_counts` counts, of an account and of all. */
export const SUM_OF_WORD = `
  SELECT coalesce(sum(count) FILTER (WHERE account_seq = @accountSeq), 0) AS own,
    coalesce(sum(count), 0) AS total
  FROM task_counts
  WHERE state = @word`;

const OF_HOST = `
  SELECT host, count(*) FILTER (WHERE state = 'given_up') AS givenUp,
    count(*) FILTER (WHERE state = 'refused') AS refused`;

const NEWEST_UNDELIVERED = `
  SELECT task_seq, host, state FROM deliveries INDEXED BY deliveries_failed
  WHERE state IN ('given_up', 'refused')
  ORDER BY task_seq DESC
  LIMIT @max`;

/** Of the newest deliveries that are given up or refused, how many are to each host. */
export const COUNT_UNDELIVERED_HOSTS = `${OF_HOST} FROM (${NEWEST_UNDELIVERED}) GROUP BY host`;

/** Of the same, those of an account. The walk ends when all that it has are found. */
export const COUNT_ACCOUNT_UNDELIVERED_HOSTS = `
  ${OF_HOST}
  FROM (
    SELECT f.host, f.state
    FROM (${NEWEST_UNDELIVERED}) AS f CROSS JOIN tasks AS t ON t.seq = f.task_seq
    WHERE t.account_seq = @accountSeq
    LIMIT @own
  )
  GROUP BY host`;

// Loose index scans: a seek or two for each lane, however many attempts wait there.
export const RETRYING_HOSTS = `
  WITH RECURSIVE hosts (host) AS (
    SELECT min(host) FROM attempts WHERE started_at IS NULL AND account_seq = @accountSeq
    UNION ALL
    SELECT (
      SELECT min(host) FROM attempts
      WHERE started_at IS NULL AND account_seq = @accountSeq AND host > hosts.host
    )
    FROM hosts WHERE hosts.host IS NOT NULL
    LIMIT @max
  )
  SELECT host FROM hosts
  WHERE host IS NOT NULL
    AND EXISTS (
      SELECT 1 FROM attempts
      WHERE started_at IS NULL AND account_seq = @accountSeq AND host = hosts.host AND retry > 0
    )`;

export const COUNT_RETRIES = `
  SELECT count(*) FROM (
    SELECT 1 FROM attempts
    WHERE started_at IS NULL AND account_seq = @accountSeq AND host = @host AND retry > 0
    LIMIT @max
  )`;

/** The same by way of the account's tasks: some of them, in whatever order. */
export const COUNT_UNDELIVERED_HOSTS_OF_TASKS = `
  ${OF_HOST}
  FROM (
    SELECT seq FROM tasks INDEXED BY tasks_by_state WHERE account_seq = @accountSeq LIMIT @max
  ) AS t CROSS JOIN deliveries AS d INDEXED BY deliveries_failed ON d.task_seq = t.seq
  WHERE d.state IN ('given_up', 'refused')
  GROUP BY host`;

/** With its task while it is there: what was erased leaves its seq to another task. */
export const FIND_HOST_FAILURE = `
  SELECT f.ended_at, f.error, f.http_status, (
    SELECT t.id FROM tasks AS t
    WHERE t.seq = f.task_seq
      AND EXISTS (
        SELECT 1 FROM attempts
        WHERE task_seq = t.seq AND host = f.host AND ended_at = f.ended_at
      )
  ) AS task_id
  FROM host_failures AS f
  WHERE f.account_seq = @accountSeq AND f.host = @host AND f.ended_at >= @from`;

// Some 10 ms each (measured with a million tasks): counts, and what is parsed for the hosts that are shown.
const SUM_ROWS_MAX = 20_000;
const DURATION_ROWS_MAX = 8000;
// As far as 25 ms go (measured with a million tasks): by the index alone, and where each is looked up with its task.
const UNDELIVERED_MAX = 20_000;
const OWN_UNDELIVERED_MAX = 10_000;
const OWN_TASKS_MAX = 5000;
// Of one host, in how many lanes.
const RETRIES_MAX = 1000;
const RETRYING_LANES_MAX = 1000;

interface HostSums {
  readonly host: string;
  attempts: number;
  succeeded: number;
  givenUp: number;
  refused: number;
  retrying: number;
}

interface UndeliveredRow {
  host: string;
  givenUp: number;
  refused: number;
}

interface FailureRow {
  ended_at: number;
  error: string | null;
  http_status: number | null;
  task_id: string | null;
}

/** What of {@link HostTrafficQuery} the statements take. */
interface Within {
  readonly accountSeq: number;
  readonly from: number;
}

/** The reads on what was sent where. */
export function hostTrafficReads(connection: Connection) {
  const readSums = sumReader(connection);
  const readUndelivered = undeliveredReader(connection);
  const readRetries = retryReader(connection);
  const readDurations = durationReader(connection);
  const findFailure = connection.prepare<[object], FailureRow>(FIND_HOST_FAILURE);
  // What is read in several steps is of one moment.
  const list = connection.transaction((query: HostTrafficQuery): HostTrafficPage => {
    const { limit } = query;
    const within = toWithin(query);
    const { sums, isWhole: hasAllSums } = readSums(within);
    const hasAllUndelivered = query.only === "sent" || readUndelivered(sums, within);
    readRetries(sums, within);
    const shown = [...sums.values()].toSorted(byHarm).slice(0, limit);
    const { durations, isWhole: hasAllDurations } = readDurations(within, shown);
    const hosts = shown.map((sum): HostTraffic => {
      const failure = findFailure.get({ ...within, host: sum.host });
      return {
        ...sum,
        durations: durations.get(sum.host) ?? new Map(),
        lastFailure: failure === undefined ? null : toFailure(failure),
      };
    });
    const isRead = hasAllSums && hasAllUndelivered && hasAllDurations;
    return { hosts, hasMore: !isRead || sums.size > limit };
  });

  return {
    listHostTraffic(query: HostTrafficQuery): HostTrafficPage {
      return list(query);
    },
  };
}

function toWithin({ scope, since }: HostTrafficQuery): Within {
  return { accountSeq: toAccountSeq(scope), from: since - (since % HOUR_MS) };
}

type SumRow = readonly [host: string, attempts: number, succeeded: number];

function sumReader(connection: Connection) {
  const select = connection.prepare<[object], SumRow>(SELECT_HOST_TRAFFIC).raw();

  return (within: Within) => {
    const sums = new Map<string, HostSums>();
    let left = SUM_ROWS_MAX;
    for (const row of select.iterate({ ...within, max: SUM_ROWS_MAX + 1 })) {
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

/** Adds what is given up or refused now, at whatever time that was; false when there was more than may be read. */
function undeliveredReader(connection: Connection) {
  const sumOfWord = wordReader(connection, "undelivered");
  const countAll = connection.prepare<[object], UndeliveredRow>(COUNT_UNDELIVERED_HOSTS);
  const countOwn = connection.prepare<[object], UndeliveredRow>(COUNT_ACCOUNT_UNDELIVERED_HOSTS);
  const countByTask = connection.prepare<[object], UndeliveredRow>(
    COUNT_UNDELIVERED_HOSTS_OF_TASKS,
  );

  // What the failures of others hide is found among the account's tasks, when those are not many.
  function ownOf(accountSeq: number, own: number): readonly UndeliveredRow[] {
    const rows = countOwn.all({ max: OWN_UNDELIVERED_MAX, accountSeq, own });
    if (undeliveredIn(rows) >= own) return rows;
    const others = countByTask.all({ max: OWN_TASKS_MAX, accountSeq });
    return undeliveredIn(others) > undeliveredIn(rows) ? others : rows;
  }

  return (sums: Map<string, HostSums>, { accountSeq }: Within): boolean => {
    const { own, isAll } = sumOfWord(accountSeq);
    if (own === 0) return true;
    const rows = isAll ? countAll.all({ max: UNDELIVERED_MAX }) : ownOf(accountSeq, own);
    for (const { host, givenUp, refused } of rows) {
      Object.assign(sumOf(sums, host), { givenUp, refused });
    }
    return undeliveredIn(rows) >= own;
  };
}

function undeliveredIn(rows: readonly UndeliveredRow[]): number {
  return rows.reduce((sum, { givenUp, refused }) => sum + givenUp + refused, 0);
}

/** How many an account has of what a word counts; `isAll`: nobody else has any. */
function wordReader(connection: Connection, word: "retrying" | "undelivered") {
  const select = connection.prepare<[object], { own: number; total: number }>(SUM_OF_WORD);

  return (accountSeq: number): { own: number; isAll: boolean } => {
    const { own, total } = select.get({ accountSeq, word }) ?? { own: 0, total: 0 };
    const isAll = accountSeq === ALL_ACCOUNTS || own === total;
    return { own: isAll ? total : own, isAll };
  };
}

/** Fills in how many deliveries of each host are tried again. */
function retryReader(connection: Connection) {
  const accounts = connection.prepare<[], number>(LIST_WAITING_ACCOUNTS).pluck();
  const hosts = connection.prepare<[object], string>(RETRYING_HOSTS).pluck();
  const sumOfWord = wordReader(connection, "retrying");
  const count = connection.prepare<[object], number>(COUNT_RETRIES).pluck();

  return (sums: ReadonlyMap<string, HostSums>, { accountSeq: of }: Within): void => {
    if (sumOfWord(of).own === 0) return;
    let left = RETRYING_LANES_MAX;
    for (const accountSeq of of === ALL_ACCOUNTS ? accounts.all() : [of]) {
      if (left <= 0) return;
      const found = hosts.all({ accountSeq, max: left });
      left -= Math.max(1, found.length);
      for (const host of found) {
        const sum = sums.get(host);
        const max = RETRIES_MAX - (sum?.retrying ?? 0);
        if (sum !== undefined) sum.retrying += count.get({ accountSeq, host, max }) ?? 0;
      }
    }
  };
}

function durationReader(connection: Connection) {
  const select = connection
    .prepare<[object], readonly [string, string]>(SELECT_HOST_DURATIONS)
    .raw();

  return (within: Within, shown: readonly HostSums[]) => {
    const sums = new Map(shown.map(({ host }) => [host, [] as Durations]));
    const hosts = JSON.stringify([...sums.keys()]);
    let left = DURATION_ROWS_MAX;
    const bounds = { examined: SUM_ROWS_MAX, max: DURATION_ROWS_MAX + 1 };
    for (const [host, text] of select.iterate({ ...within, hosts, ...bounds })) {
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

function toFailure(row: FailureRow): HostFailure {
  return {
    endedAt: row.ended_at,
    error: row.error,
    httpStatus: row.http_status,
    taskId: row.task_id,
  };
}
