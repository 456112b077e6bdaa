import { MINUTE_MS } from "../../domain/clock/duration.ts";
import { type Durations } from "../../domain/stats/time-series.ts";
import {
  HOST_WORDS,
  totalTally,
  TRAFFIC_WORDS,
  type AccountTally,
  type EndedAttempt,
  type HostHour,
  type TrafficMinute,
  type TrafficTally,
} from "../../domain/stats/traffic-tally.ts";
import type { BatchSql } from "./machine/sql.ts";

/** Stands for all accounts together in the tables. */
export const ALL_ACCOUNTS = 0;

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

/** Something of an account. */
type Of<Kind> = readonly [accountSeq: number, Kind];

/** Sends what a batch adds to the traffic: for each account, and for all together. */
export function sendTraffic(sql: BatchSql, traffic: TrafficTally): void {
  const accounts = traffic.take();
  if (accounts.size === 0) return;
  const tallies: readonly Of<AccountTally>[] = [...accounts, [ALL_ACCOUNTS, totalTally(accounts)]];
  sendMinutes(
    sql,
    allOf(tallies, ({ minutes }) => minutes.values()),
  );
  sendHours(
    sql,
    allOf(tallies, (tally) => tally.hours()),
  );
  sendFailures(
    sql,
    allOf(tallies, ({ failures }) => failures.values()),
  );
}

function allOf<Kind>(
  tallies: readonly Of<AccountTally>[],
  listOf: (tally: AccountTally) => Iterable<Kind>,
): readonly Of<Kind>[] {
  return tallies.flatMap(([accountSeq, tally]) =>
    Array.from(listOf(tally), (each): Of<Kind> => [accountSeq, each]),
  );
}

function sendMinutes(sql: BatchSql, minutes: readonly Of<TrafficMinute>[]): void {
  sql.send(ADD_TRAFFIC, [
    sql.stripe,
    minutes.map(([accountSeq]) => accountSeq),
    minutes.map(([, { at }]) => at),
    minutes.map(([, { durations }]) => toArrayText(durations)),
    ...TRAFFIC_WORDS.map((word) => minutes.map(([, { counts }]) => counts[word])),
  ]);
}

function sendHours(sql: BatchSql, hours: readonly Of<HostHour>[]): void {
  if (hours.length === 0) return;
  sql.send(ADD_HOST_TRAFFIC, [
    sql.stripe,
    hours.map(([accountSeq]) => accountSeq),
    hours.map(([, { at }]) => at),
    hours.map(([, { host }]) => host),
    hours.map(([, { durations }]) => toArrayText(durations)),
    ...HOST_WORDS.map((word) => hours.map(([, { counts }]) => counts[word])),
  ]);
}

function sendFailures(sql: BatchSql, failures: readonly Of<EndedAttempt>[]): void {
  if (failures.length === 0) return;
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

/** A histogram as PostgreSQL writes arrays; buckets that were never counted in are empty. */
export function toArrayText(durations: Durations): string {
  return `{${Array.from(durations, (count) => count ?? 0).join(",")}}`;
}
