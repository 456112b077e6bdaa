import { HOUR_MS, MINUTE_MS } from "../clock/duration.ts";
import type { AttemptResult, DeliveryDecision } from "../webhook/delivery.ts";
import { type Durations, addDuration, addDurations, bucketOf } from "./time-series.ts";

/** Traffic is counted by minute for an account, and by hour for each of its hosts. */

const NOTHING_COUNTED = {
  posted: 0,
  completed: 0,
  failed: 0,
  cancelled: 0,
  first_attempts: 0,
  first_delivered: 0,
  delivered: 0,
  given_up: 0,
  refused: 0,
};

export const TRAFFIC_WORDS = Object.keys(NOTHING_COUNTED) as (keyof typeof NOTHING_COUNTED)[];

export const HOST_WORDS = ["attempts", "succeeded"] as const;

export interface TasksChange {
  readonly accountId: number;
  readonly at: number;
  readonly posted?: number;
  readonly completed?: number;
  readonly failed?: number;
  readonly cancelled?: number;
}

export interface EndedAttempt {
  readonly attempt: {
    readonly accountId: number;
    readonly taskSeq: number;
    readonly host: string;
    readonly retry: number;
    readonly startedAt: number;
  };
  readonly result: Pick<AttemptResult, "outcome" | "error" | "httpStatus">;
  readonly endedAt: number;
  readonly decision: DeliveryDecision;
}

export interface TrafficMinute {
  readonly at: number;
  readonly counts: typeof NOTHING_COUNTED;
  readonly durations: Durations;
}

export interface HostHour {
  readonly at: number;
  readonly host: string;
  readonly counts: Record<(typeof HOST_WORDS)[number], number>;
  readonly durations: Durations;
}

/** Gathers in memory what a batch adds to the traffic, so that it is written once, at its end. */
export class TrafficTally {
  #accounts = new Map<number, AccountTally>();

  addTasks(change: TasksChange): void {
    this.#account(change.accountId).addTasks(change);
  }

  addAttempt(record: EndedAttempt): void {
    this.#account(record.attempt.accountId).addAttempt(record);
  }

  /** Returns all counts by account, and resets them. */
  take(): ReadonlyMap<number, AccountTally> {
    const accounts = this.#accounts;
    if (accounts.size > 0) this.#accounts = new Map();
    return accounts;
  }

  #account(accountId: number): AccountTally {
    const known = this.#accounts.get(accountId);
    if (known !== undefined) return known;
    const tally = new AccountTally();
    this.#accounts.set(accountId, tally);
    return tally;
  }
}

export function totalTally(accounts: ReadonlyMap<number, AccountTally>): AccountTally {
  const [first, second] = accounts.values();
  if (first !== undefined && second === undefined) return first;
  const total = new AccountTally();
  for (const tally of accounts.values()) total.addAll(tally);
  return total;
}

/** The counters of an account. They run for each change of each task: so they use plain loops, and numbers as keys. */
export class AccountTally {
  readonly minutes = new Map<number, TrafficMinute>();
  readonly #hosts = new Map<string, Map<number, HostHour>>();
  /** The last attempt that failed, by host. */
  readonly failures = new Map<string, EndedAttempt>();

  addTasks(change: TasksChange): void {
    const { counts } = this.#minute(change.at);
    counts.posted += change.posted ?? 0;
    counts.completed += change.completed ?? 0;
    counts.failed += change.failed ?? 0;
    counts.cancelled += change.cancelled ?? 0;
  }

  addAttempt(record: EndedAttempt): void {
    const { attempt, result, decision, endedAt } = record;
    const isInterrupted = result.outcome === "interrupted";
    if (isInterrupted && decision.state === "scheduled") return;
    const minute = this.#minute(endedAt);
    if (decision.state !== "scheduled") minute.counts[decision.state]++;
    // It had no response, so it says nothing about the receiver.
    if (isInterrupted) return;
    const hour = this.#hour(attempt.host, endedAt);
    const isDelivered = result.outcome === "delivered";
    const bucket = bucketOf(endedAt - attempt.startedAt);
    addDuration(minute.durations, bucket);
    addDuration(hour.durations, bucket);
    hour.counts.attempts++;
    if (isDelivered) hour.counts.succeeded++;
    else this.#noteFailure(record);
    if (attempt.retry > 0) return;
    minute.counts.first_attempts++;
    if (isDelivered) minute.counts.first_delivered++;
  }

  addAll(other: AccountTally): void {
    for (const { at, counts, durations } of other.minutes.values()) {
      const minute = this.#minute(at);
      for (const word of TRAFFIC_WORDS) minute.counts[word] += counts[word];
      addDurations(minute.durations, durations);
    }
    for (const { at, host, counts, durations } of other.hours()) {
      const hour = this.#hour(host, at);
      for (const word of HOST_WORDS) hour.counts[word] += counts[word];
      addDurations(hour.durations, durations);
    }
    for (const failure of other.failures.values()) this.#noteFailure(failure);
  }

  *hours(): Iterable<HostHour> {
    for (const hours of this.#hosts.values()) yield* hours.values();
  }

  #noteFailure(record: EndedAttempt): void {
    const before = this.failures.get(record.attempt.host);
    if (before !== undefined && before.endedAt > record.endedAt) return;
    this.failures.set(record.attempt.host, record);
  }

  #minute(time: number): TrafficMinute {
    const at = time - (time % MINUTE_MS);
    const known = this.minutes.get(at);
    if (known !== undefined) return known;
    const minute: TrafficMinute = { at, counts: { ...NOTHING_COUNTED }, durations: [] };
    this.minutes.set(at, minute);
    return minute;
  }

  #hour(host: string, time: number): HostHour {
    const at = time - (time % HOUR_MS);
    const hours = this.#hosts.get(host) ?? new Map<number, HostHour>();
    const known = hours.get(at);
    if (known !== undefined) return known;
    const hour: HostHour = { at, host, counts: { attempts: 0, succeeded: 0 }, durations: [] };
    this.#hosts.set(host, hours.set(at, hour));
    return hour;
  }
}
