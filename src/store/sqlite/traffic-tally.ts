import { bucketOf } from "../../domain/stats/duration-histogram.ts";
import type { AttemptRecord } from "../store.ts";
import { addDuration, addDurations, StoredDurations, type Durations } from "./durations.ts";
import type { Connection } from "./machine/connection.ts";

/** How long the steps are that everything is counted in at first, and those that it is folded into. */
export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;

/** In the tables: all accounts together. */
export const ALL_ACCOUNTS = 0;

/** The columns of `traffic` that are added up. */
export const TRAFFIC_COLUMNS = [
  ...(["posted", "completed", "failed", "cancelled"] as const),
  ...(["first_attempts", "first_delivered", "delivered", "given_up", "refused"] as const),
] as const;

type TrafficColumn = (typeof TRAFFIC_COLUMNS)[number];

const HOST_COLUMNS = ["attempts", "succeeded"] as const;

type HostColumn = (typeof HOST_COLUMNS)[number];

const NO_DURATIONS = "[]";

// What has no durations to add leaves those that are there.
const SET_DURATIONS = `
  durations_text = iif(excluded.durations_text = '${NO_DURATIONS}', durations_text, excluded.durations_text)`;

export const FIND_DURATIONS = `
  SELECT durations_text FROM traffic WHERE account_seq = ? AND step_ms = ${MINUTE_MS} AND at = ?`;

export const ADD_TRAFFIC = `
  INSERT INTO traffic (account_seq, step_ms, at, durations_text, ${TRAFFIC_COLUMNS.join(", ")})
  VALUES (?, ${MINUTE_MS}, ?, ?, ${TRAFFIC_COLUMNS.map(() => "?").join(", ")})
  ON CONFLICT (account_seq, step_ms, at) DO UPDATE SET ${additions(TRAFFIC_COLUMNS)}, ${SET_DURATIONS}`;

export const FIND_HOST_DURATIONS = `
  SELECT durations_text FROM host_traffic WHERE account_seq = ? AND at = ? AND host = ?`;

export const ADD_HOST_TRAFFIC = `
  INSERT INTO host_traffic (account_seq, at, host, durations_text, ${HOST_COLUMNS.join(", ")})
  VALUES (?, ?, ?, ?, ${HOST_COLUMNS.map(() => "?").join(", ")})
  ON CONFLICT (account_seq, at, host) DO UPDATE SET ${additions(HOST_COLUMNS)}, ${SET_DURATIONS}`;

/** Whenever the one before was: the clock may have been ahead then. */
export const KEEP_HOST_FAILURE = `
  INSERT INTO host_failures (account_seq, host, ended_at, error, http_status, task_seq)
  VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (account_seq, host) DO UPDATE
  SET ended_at = excluded.ended_at, error = excluded.error, http_status = excluded.http_status,
      task_seq = excluded.task_seq`;

/** The assignments of an upsert that adds to what is there. */
export function additions(columns: readonly string[]): string {
  return columns.map((column) => `${column} = ${column} + excluded.${column}`).join(", ");
}

/** Tasks of an account that something happened to, at one time. */
export interface TasksChange {
  readonly accountSeq: number;
  readonly at: number;
  readonly posted?: number;
  readonly completed?: number;
  readonly failed?: number;
  readonly cancelled?: number;
}

/** What every write tells that takes tasks in, ends them, or ends an attempt: in the operation that does so. */
export interface TrafficChanges {
  addTasks(change: TasksChange): void;
  /** That an attempt ended which was in flight. */
  addAttempt(record: AttemptRecord): void;
}

/**
 * Counts what happens by the time at which it did. Gathered in memory and written once for a batch, in its transaction,
 * for each account and for all together.
 */
export class TrafficTally implements TrafficChanges {
  readonly #writer;
  readonly #stored: StoredDurations;
  /** Of the operation that is running. */
  #open: (TasksChange | AttemptRecord)[] = [];
  /** Of the batch so far. */
  #kept = new TallyTable();

  constructor(connection: Connection) {
    this.#stored = new StoredDurations(connection);
    this.#writer = tallyWriter(connection, this.#stored);
  }

  addTasks(change: TasksChange): void {
    this.#open.push(change);
  }

  addAttempt(record: AttemptRecord): void {
    this.#open.push(record);
  }

  /** The operation is part of the batch: what it counted will be written with it. */
  keep(): void {
    if (this.#open.length === 0) return;
    for (const change of this.#open) {
      if ("attempt" in change) this.#kept.account(change.attempt.accountId).addAttempt(change);
      else this.#kept.account(change.accountSeq).addTasks(change);
    }
    this.#open = [];
  }

  /** The operation was undone, and what it counted with it. */
  drop(): void {
    this.#open = [];
  }

  /** Writes what was kept. To be called in the batch's transaction, before its COMMIT. */
  write(): void {
    if (this.#kept.isEmpty) return;
    this.#writer(this.#kept);
    this.#kept = new TallyTable();
  }

  /** The batch was undone. */
  reset(): void {
    this.#open = [];
    this.#kept = new TallyTable();
    this.#stored.forget();
  }
}

/** A minute of an account. */
interface Step {
  readonly at: number;
  readonly counts: Record<TrafficColumn, number>;
  readonly durations: Durations;
}

/** An hour of an account's host. */
interface HostStep {
  readonly at: number;
  readonly host: string;
  readonly counts: Record<HostColumn, number>;
  readonly durations: Durations;
}

/** What was counted, by account. */
class TallyTable {
  readonly accounts = new Map<number, AccountTally>();

  get isEmpty(): boolean {
    return this.accounts.size === 0;
  }

  account(accountSeq: number): AccountTally {
    const known = this.accounts.get(accountSeq);
    if (known !== undefined) return known;
    const tally = new AccountTally();
    this.accounts.set(accountSeq, tally);
    return tally;
  }

  /** All accounts together. */
  total(): AccountTally {
    const [first, second] = this.accounts.values();
    if (first !== undefined && second === undefined) return first;
    const total = new AccountTally();
    for (const tally of this.accounts.values()) total.addAll(tally);
    return total;
  }
}

/** What was counted of an account. Run for each change of each task: plain loops and numbers as keys. */
class AccountTally {
  readonly steps = new Map<number, Step>();
  readonly hosts = new Map<string, Map<number, HostStep>>();
  /** By host, the last attempt that failed. */
  readonly failures = new Map<string, AttemptRecord>();

  addTasks(change: TasksChange): void {
    const { counts } = this.#step(change.at);
    counts.posted += change.posted ?? 0;
    counts.completed += change.completed ?? 0;
    counts.failed += change.failed ?? 0;
    counts.cancelled += change.cancelled ?? 0;
  }

  addAttempt(record: AttemptRecord): void {
    const { attempt, result, decision, endedAt } = record;
    const isInterrupted = result.outcome === "interrupted";
    if (isInterrupted && decision.state === "scheduled") return;
    const step = this.#step(endedAt);
    if (decision.state !== "scheduled") step.counts[decision.state]++;
    // Nobody answered it, and it says nothing about the receiver.
    if (isInterrupted) return;
    const hostStep = this.#hostStep(attempt.host, endedAt);
    const isDelivered = result.outcome === "delivered";
    const bucket = bucketOf(endedAt - attempt.startedAt);
    addDuration(step.durations, bucket);
    addDuration(hostStep.durations, bucket);
    hostStep.counts.attempts++;
    if (isDelivered) hostStep.counts.succeeded++;
    else this.#noteFailure(record);
    if (attempt.retry > 0) return;
    step.counts.first_attempts++;
    if (isDelivered) step.counts.first_delivered++;
  }

  addAll(other: AccountTally): void {
    for (const { at, counts, durations } of other.steps.values()) {
      const step = this.#step(at);
      for (const column of TRAFFIC_COLUMNS) step.counts[column] += counts[column];
      addDurations(step.durations, durations);
    }
    for (const { at, host, counts, durations } of other.hostSteps()) {
      const step = this.#hostStep(host, at);
      for (const column of HOST_COLUMNS) step.counts[column] += counts[column];
      addDurations(step.durations, durations);
    }
    for (const failure of other.failures.values()) this.#noteFailure(failure);
  }

  *hostSteps(): Iterable<HostStep> {
    for (const steps of this.hosts.values()) yield* steps.values();
  }

  #noteFailure(record: AttemptRecord): void {
    const before = this.failures.get(record.attempt.host);
    if (before !== undefined && before.endedAt > record.endedAt) return;
    this.failures.set(record.attempt.host, record);
  }

  #step(time: number): Step {
    const at = time - (time % MINUTE_MS);
    const known = this.steps.get(at);
    if (known !== undefined) return known;
    const tasks = { posted: 0, completed: 0, failed: 0, cancelled: 0 };
    const ends = { first_attempts: 0, first_delivered: 0, delivered: 0, given_up: 0, refused: 0 };
    const step: Step = { at, counts: { ...tasks, ...ends }, durations: [] };
    this.steps.set(at, step);
    return step;
  }

  #hostStep(host: string, time: number): HostStep {
    const at = time - (time % HOUR_MS);
    const steps = this.hosts.get(host) ?? new Map<number, HostStep>();
    const known = steps.get(at);
    if (known !== undefined) return known;
    const counts = { attempts: 0, succeeded: 0 };
    const step: HostStep = { at, host, counts, durations: [] };
    this.hosts.set(host, steps.set(at, step));
    return step;
  }
}

function tallyWriter(connection: Connection, stored: StoredDurations): (table: TallyTable) => void {
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

  function writeStep(accountSeq: number, { at, counts, durations }: Step): void {
    const find = (): string | undefined => findDurations.get(accountSeq, at);
    const sum = summed(`${accountSeq} ${at}`, durations, find);
    addTraffic.run(accountSeq, at, sum, ...TRAFFIC_COLUMNS.map((column) => counts[column]));
  }

  function writeHost(accountSeq: number, { at, host, counts, durations }: HostStep): void {
    const find = (): string | undefined => findHostDurations.get(accountSeq, at, host);
    const sum = summed(`${accountSeq} ${at} ${host}`, durations, find);
    addHost.run(accountSeq, at, host, sum, ...HOST_COLUMNS.map((column) => counts[column]));
  }

  function writeFailure(accountSeq: number, { attempt, result, endedAt }: AttemptRecord): void {
    const { error, httpStatus } = result;
    keepFailure.run(accountSeq, attempt.host, endedAt, error, httpStatus, attempt.taskSeq);
  }

  function writeAccount(accountSeq: number, tally: AccountTally): void {
    for (const step of tally.steps.values()) writeStep(accountSeq, step);
    for (const step of tally.hostSteps()) writeHost(accountSeq, step);
    for (const failure of tally.failures.values()) writeFailure(accountSeq, failure);
  }

  return (table) => {
    stored.begin();
    for (const [accountSeq, tally] of table.accounts) writeAccount(accountSeq, tally);
    writeAccount(ALL_ACCOUNTS, table.total());
  };
}
