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
} from "../../domain/stats/traffic-tally.ts";
import { StoredDurations } from "./durations.ts";
import type { Connection } from "./machine/connection.ts";

/** Stands for all accounts together in the tables. */
export const ALL_ACCOUNTS = 0;

const NO_DURATIONS = "[]";

// Without durations to add, the stored ones stay.
const SET_DURATIONS = `
  durations_text = iif(excluded.durations_text = '${NO_DURATIONS}', durations_text, excluded.durations_text)`;

export const FIND_DURATIONS = `
  SELECT durations_text FROM traffic WHERE account_seq = ? AND step_ms = ${MINUTE_MS} AND at = ?`;

export const ADD_TRAFFIC = `
  INSERT INTO traffic (account_seq, step_ms, at, durations_text, ${TRAFFIC_WORDS.join(", ")})
  VALUES (?, ${MINUTE_MS}, ?, ?, ${TRAFFIC_WORDS.map(() => "?").join(", ")})
  ON CONFLICT (account_seq, step_ms, at) DO UPDATE SET ${additions(TRAFFIC_WORDS)}, ${SET_DURATIONS}`;

export const FIND_HOST_DURATIONS = `
  SELECT durations_text FROM host_traffic WHERE account_seq = ? AND at = ? AND host = ?`;

export const ADD_HOST_TRAFFIC = `
  INSERT INTO host_traffic (account_seq, at, host, durations_text, ${HOST_WORDS.join(", ")})
  VALUES (?, ?, ?, ?, ${HOST_WORDS.map(() => "?").join(", ")})
  ON CONFLICT (account_seq, at, host) DO UPDATE SET ${additions(HOST_WORDS)}, ${SET_DURATIONS}`;

/** Overwrites an earlier failure whatever its time: the clock may have been ahead then. */
export const KEEP_HOST_FAILURE = `
  INSERT INTO host_failures (account_seq, host, ended_at, error, http_status, task_seq)
  VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (account_seq, host) DO UPDATE
  SET ended_at = excluded.ended_at, error = excluded.error, http_status = excluded.http_status,
      task_seq = excluded.task_seq`;

/** The assignments of an upsert that adds to the stored values. */
export function additions(columns: readonly string[]): string {
  return columns.map((column) => `${column} = ${column} + excluded.${column}`).join(", ");
}

/** Writes what a batch adds to the traffic, in its transaction: for each account and for all together. */
export function trafficWriter(connection: Connection) {
  const stored = new StoredDurations(connection);
  const findDurations = connection.prepare<[number, number], string>(FIND_DURATIONS).pluck();
  const addTraffic = connection.prepare<(number | string)[]>(ADD_TRAFFIC);
  const findHostDurations = connection
    .prepare<[number, number, string], string>(FIND_HOST_DURATIONS)
    .pluck();
  const addHost = connection.prepare<(number | string)[]>(ADD_HOST_TRAFFIC);
  const keepFailure = connection.prepare(KEEP_HOST_FAILURE);

  function summed(key: string, durations: Durations, find: () => string | undefined): string {
    return durations.length === 0 ? NO_DURATIONS : stored.sum(key, durations, find);
  }

  function writeMinute(accountSeq: number, { at, counts, durations }: TrafficMinute): void {
    const find = (): string | undefined => findDurations.get(accountSeq, at);
    const sum = summed(`${accountSeq} ${at}`, durations, find);
    addTraffic.run(accountSeq, at, sum, ...TRAFFIC_WORDS.map((column) => counts[column]));
  }

  function writeHour(accountSeq: number, { at, host, counts, durations }: HostHour): void {
    const find = (): string | undefined => findHostDurations.get(accountSeq, at, host);
    const sum = summed(`${accountSeq} ${at} ${host}`, durations, find);
    addHost.run(accountSeq, at, host, sum, ...HOST_WORDS.map((column) => counts[column]));
  }

  function writeFailure(accountSeq: number, { attempt, result, endedAt }: EndedAttempt): void {
    const { error, httpStatus } = result;
    keepFailure.run(accountSeq, attempt.host, endedAt, error, httpStatus, attempt.taskSeq);
  }

  function writeAccount(accountSeq: number, tally: AccountTally): void {
    for (const minute of tally.minutes.values()) writeMinute(accountSeq, minute);
    for (const hour of tally.hours()) writeHour(accountSeq, hour);
    for (const failure of tally.failures.values()) writeFailure(accountSeq, failure);
  }

  return {
    write(accounts: ReadonlyMap<number, AccountTally>): void {
      if (accounts.size === 0) return;
      stored.begin();
      for (const [accountSeq, tally] of accounts) writeAccount(accountSeq, tally);
      writeAccount(ALL_ACCOUNTS, totalTally(accounts));
    },

    /** To be called when a transaction was undone. */
    forget(): void {
      stored.forget();
    },
  };
}
