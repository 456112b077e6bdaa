import { type AccountUsage } from "../../domain/account/quota.ts";
import { MINUTE_MS } from "../../domain/clock/duration.ts";
import { type Durations, addDurations } from "../../domain/stats/time-series.ts";
import {
  type AccountTally,
  type EndedAttempt,
  HOST_WORDS as HOST_TRAFFIC_WORDS,
  type HostHour,
  TRAFFIC_WORDS,
  type TrafficMinute,
  TrafficTally,
  totalTally,
} from "../../domain/stats/traffic-tally.ts";
import {
  CountTally,
  type CountWriter,
  type CountedWord,
  HOST_WORDS,
  HostTally,
  type HostWriter,
  type WorkChanges,
} from "../../domain/stats/work-counts.ts";
import { parseDurations } from "../sql/traffic.ts";
import { ALL_ACCOUNTS } from "../sql/work-counts.ts";
import type { GatheredWork } from "./machine/batch.ts";
import type { Connection } from "./machine/connection.ts";

export const ADD_TO_COUNT = `
  INSERT INTO task_counts (account_seq, state, count) VALUES (?, ?, ?)
  ON CONFLICT (account_seq, state) DO UPDATE SET count = count + excluded.count`;

// Runs once in a batch for each account that posts: one row, so it costs little more than the look-ups.
export const SELECT_USAGE = `
  SELECT coalesce(sum(count) FILTER (WHERE state = 'bytes'), 0) AS bytes,
    coalesce(sum(count) FILTER (WHERE state <> 'bytes'), 0) AS openTasks
  FROM task_counts
  WHERE account_seq = ? AND state IN ('queued', 'delayed', 'running', 'bytes')`;

export const ADD_TO_HOST = `
  INSERT INTO host_counts (account_seq, host, ${HOST_WORDS.join(", ")}) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (account_seq, host) DO UPDATE SET ${additions(HOST_WORDS)}`;

/** The host may never be sent to again. */
export const ERASE_EMPTY_HOST = `
  DELETE FROM host_counts
  WHERE account_seq = ? AND host = ? AND ${HOST_WORDS.map((word) => `${word} = 0`).join(" AND ")}`;

const NO_USAGE: AccountUsage = { bytes: 0, openTasks: 0 };

/** Changes that writes report while they run, and that are written once, at the end of their batch. */
export interface BatchChanges extends WorkChanges {
  /**
   * The accounts whose tasks and deliveries clients see changed, for listeners. A caller that changes a count does not
   * have to add its account.
   */
  readonly changed: Set<number>;
  /** The usage of an account now, with all changes of its batch so far: to be asked for before an operation counts. */
  usageOf(accountId: number): AccountUsage;
}

/** Gathers the changes that the operations of a batch report. */
export class GatheredChanges implements BatchChanges, GatheredWork {
  readonly counts = new CountTally();
  readonly hosts = new HostTally(this.counts);
  readonly traffic = new TrafficTally();
  readonly changed = new Set<number>();
  readonly #writeCounts: CountWriter;
  readonly #writeHosts: HostWriter;
  readonly #writeTraffic;
  readonly #readUsage;
  /** The usage at the start of the batch, of the requested accounts. */
  readonly #usageBefore = new Map<number, AccountUsage>();

  constructor(connection: Connection) {
    const addToCount = connection.prepare<[number, CountedWord, number]>(ADD_TO_COUNT);
    const addToHost = connection.prepare<[number, string, number, number, number]>(ADD_TO_HOST);
    const eraseEmpty = connection.prepare<[number, string]>(ERASE_EMPTY_HOST);
    this.#writeCounts = {
      add: (accountId, word, count) => void addToCount.run(accountId, word, count),
    };
    this.#writeHosts = (accountId, host, { given_up, refused, retrying }) => {
      addToHost.run(accountId, host, given_up, refused, retrying);
      if (Math.min(given_up, refused, retrying) < 0) eraseEmpty.run(accountId, host);
    };
    this.#writeTraffic = trafficWriter(connection);
    this.#readUsage = connection.prepare<[number], AccountUsage>(SELECT_USAGE);
  }

  usageOf(accountId: number): AccountUsage {
    const before = this.#usageBefore.get(accountId) ?? this.#readUsage.get(accountId) ?? NO_USAGE;
    this.#usageBefore.set(accountId, before);
    return this.counts.usageAfter(accountId, before);
  }

  write(): void {
    this.counts.write(this.#writeCounts, this.changed);
    this.hosts.write(this.#writeHosts);
    this.#usageBefore.clear();
    this.#writeTraffic.write(this.traffic.take());
  }

  reset(): void {
    this.changed.clear();
    this.counts.reset();
    this.hosts.reset();
    this.#usageBefore.clear();
    this.traffic.take();
    this.#writeTraffic.forget();
  }
}

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
  INSERT INTO host_traffic (account_seq, at, host, durations_text, ${HOST_TRAFFIC_WORDS.join(", ")})
  VALUES (?, ?, ?, ?, ${HOST_TRAFFIC_WORDS.map(() => "?").join(", ")})
  ON CONFLICT (account_seq, at, host) DO UPDATE SET ${additions(HOST_TRAFFIC_WORDS)}, ${SET_DURATIONS}`;

/** Overwrites an earlier failure of any time: the clock may have been ahead then. */
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
function trafficWriter(connection: Connection) {
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

  function writeMinute(accountId: number, { at, counts, durations }: TrafficMinute): void {
    const find = (): string | undefined => findDurations.get(accountId, at);
    const sum = summed(`${accountId} ${at}`, durations, find);
    addTraffic.run(accountId, at, sum, ...TRAFFIC_WORDS.map((column) => counts[column]));
  }

  function writeHour(accountId: number, { at, host, counts, durations }: HostHour): void {
    const find = (): string | undefined => findHostDurations.get(accountId, at, host);
    const sum = summed(`${accountId} ${at} ${host}`, durations, find);
    addHost.run(accountId, at, host, sum, ...HOST_TRAFFIC_WORDS.map((column) => counts[column]));
  }

  function writeFailure(accountId: number, { attempt, result, endedAt }: EndedAttempt): void {
    const { error, httpStatus } = result;
    keepFailure.run(accountId, attempt.host, endedAt, error, httpStatus, attempt.taskSeq);
  }

  function writeAccount(accountId: number, tally: AccountTally): void {
    for (const minute of tally.minutes.values()) writeMinute(accountId, minute);
    for (const hour of tally.hours()) writeHour(accountId, hour);
    for (const failure of tally.failures.values()) writeFailure(accountId, failure);
  }

  return {
    write(accounts: ReadonlyMap<number, AccountTally>): void {
      if (accounts.size === 0) return;
      stored.begin();
      for (const [accountId, tally] of accounts) writeAccount(accountId, tally);
      writeAccount(ALL_ACCOUNTS, totalTally(accounts));
    },

    /** To be called when a transaction was undone. */
    forget(): void {
      stored.forget();
    },
  };
}

/**
 * Remembers the durations of the rows that this connection wrote last, so that they need not be read and parsed again
 * for each batch (measured: 10 of the 48 µs that eight attempts cost beside their own rows).
 */
class StoredDurations {
  readonly #findVersion;
  /** Changes once another connection has committed. */
  #version: unknown = null;
  readonly #known = new Map<string, Durations>();

  constructor(connection: Connection) {
    this.#findVersion = connection.prepare("PRAGMA data_version").pluck();
  }

  /** Must be called in each transaction before anything is added: no other connection writes until its end. */
  begin(): void {
    const version = this.#findVersion.get();
    if (version !== this.#version || this.#known.size > KNOWN_MAX) this.forget();
    this.#version = version;
  }

  /** Adds durations to the durations of the row with this key, and returns the text to store. */
  sum(key: string, durations: Durations, findStored: () => string | undefined): string {
    const sum = this.#known.get(key) ?? parseDurations(findStored() ?? "[]");
    addDurations(sum, durations);
    this.#known.set(key, sum);
    return toDurationText(sum);
  }

  /** To be called when a transaction was undone. */
  forget(): void {
    this.#known.clear();
  }
}

const KNOWN_MAX = 1000;

/** One text in a row instead of rows of their own: a batch that ends attempts then writes four rows, not forty. */
export function toDurationText(durations: readonly number[]): string {
  return JSON.stringify(durations);
}
