import type { SuspendedWork } from "../domain/account/account.ts";
import type { SeriesCounts, SeriesDuration, SeriesStep } from "../domain/stats/time-series.ts";
import type { WorkCounts } from "../domain/stats/work-counts.ts";
import type { AccountState } from "./account.ts";

export type { WorkCounts } from "../domain/stats/work-counts.ts";

/** Amounts now, and traffic over time. */
export interface TrafficStore {
  /**
   * Counts how much there is of everything, now: for an account by one indexed read. For all accounts together (null)
   * it may take its time without holding up anything else.
   */
  countWork(scope: Scope): Promise<WorkCounts>;
  /** Finds what happened. May take its time without holding up anything else. */
  findTraffic(query: TrafficQuery): Promise<Traffic>;
  /** Lists where it was sent. May take its time as well; the amount that is read is bounded. */
  listHostTraffic(query: HostTrafficQuery): Promise<HostTrafficPage>;
  /** When the longest-waiting task that may run was queued; null when none waits. Read as {@link countWork}. */
  findOldestWaiting(scope: Scope): Promise<number | null>;
  listAccountOverviews(query: AccountOverviewQuery): Promise<{
    readonly accounts: readonly AccountOverview[];
    readonly next: string | null;
  }>;
  /** Adds to the traffic how much waits at `now`, and for how long. Of all accounts it adds a step in any case. */
  sampleQueues(sample: { now: number }): Promise<void>;
  /** Folds minutes that began before `minutesBefore` into hours, some at a time. */
  foldTraffic(fold: { minutesBefore: number }): Promise<"more" | "done">;
}

/** The account of the numbers; null for all accounts together. */
export type Scope = number | null;

export interface TrafficStep extends SeriesStep {
  readonly stepMs: number;
}

export interface TrafficQuery {
  readonly scope: Scope;
  /** Steps that begin at or after this time, */
  readonly from: number;
  /** and before this one. */
  readonly to: number;
}

/** Steps in which something happened, oldest first. */
export interface Traffic {
  readonly steps: readonly TrafficStep[];
  readonly durations: readonly SeriesDuration[];
}

export interface HostTrafficQuery {
  readonly scope: Scope;
  /** Counted in hours: the hour that contains this time is included. */
  readonly since: number;
  readonly limit: number;
  /**
   * Only hosts to which something was sent within the time, even where other hosts have given-up or refused deliveries.
   */
  readonly only?: "sent";
}

export interface HostTraffic {
  readonly host: string;
  readonly attempts: number;
  readonly succeeded: number;
  /** Deliveries that are given up now, whenever they were. */
  readonly givenUp: number;
  /** Deliveries that are refused now. */
  readonly refused: number;
  /** Deliveries that have failed and are being retried now. */
  readonly retrying: number;
  readonly durations: ReadonlyMap<number, number>;
  /** The last attempt that failed within the time; null when none has. */
  readonly lastFailure: HostFailure | null;
}

export interface HostFailure {
  readonly endedAt: number;
  readonly error: string | null;
  readonly httpStatus: number | null;
  /** Null when the task has been erased. */
  readonly taskId: string | null;
}

/** Hosts, the worst first. */
export interface HostTrafficPage {
  readonly hosts: readonly HostTraffic[];
  /** True when there are more, or when there was more to read than may be read. */
  readonly hasMore: boolean;
}

/** An account in the operator's list. */
export interface AccountOverview extends Omit<AccountState, "accountId"> {
  readonly keysActive: number;
  /** Null when the account is enabled. */
  readonly held: SuspendedWork | null;
  readonly counts: WorkCounts;
  /** The last 24 hours. */
  readonly day: Pick<SeriesCounts, "posted" | "delivered" | "givenUp" | "refused">;
}

export interface AccountOverviewQuery {
  /** A part of a login; null selects any. */
  readonly part: string | null;
  /** The last login of the previous page. */
  readonly after: string | null;
  readonly limit: number;
  readonly now: number;
}
