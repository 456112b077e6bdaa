import type { HeldWork } from "../domain/account/held-work.ts";
import type { OwnLimits } from "../domain/account/quota.ts";
import type { FirstSteps, WorkCounts } from "../domain/stats/work-counts.ts";
import type { DeliveryKind } from "../domain/webhook/delivery.ts";

export type { FirstSteps, WorkCounts } from "../domain/stats/work-counts.ts";

/** What the store takes and gives about what happened over time; re-exported by store.ts. */

/** What is shown of how much there is, and of what happened over time. */
export interface TrafficStore {
  /**
   * How much there is of everything, now: of an account by one indexed read. What is read of all accounts together
   * (null) may take its time without holding up anything else.
   */
  countWork(scope: Scope): Promise<WorkCounts>;
  /** What happened. May take its time without holding up anything else. */
  findTraffic(query: TrafficQuery): Promise<Traffic>;
  /** Where it was sent. May take its time as well; bounded by how much is read. */
  listHostTraffic(query: HostTrafficQuery): Promise<HostTrafficPage>;
  /** What has ever been done, by an account or by any. Read as {@link countWork}. */
  findFirstSteps(scope: Scope): Promise<FirstSteps>;
  /** Since when the task has waited that has waited longest and may run; null: none waits. Read as {@link countWork}. */
  findOldestWaiting(scope: Scope): Promise<number | null>;
  listAccountOverviews(query: AccountOverviewQuery): Promise<AccountOverviewPage>;
  /** Adds to the traffic how much waits at `now`, and for how long. */
  sampleQueues(sample: { now: number }): Promise<void>;
  /** Folds minutes that began before `minutesBefore` into hours, some at a time. */
  foldTraffic(fold: { minutesBefore: number }): Promise<"more" | "done">;
}

/** Whose numbers: an account's, or (null) those of all accounts together. */
export type Scope = number | null;

/** What was counted in a step of time. */
export interface TrafficCounts {
  readonly posted: number;
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  /** First attempts of a series that ended. */
  readonly firstAttempts: number;
  readonly firstDelivered: number;
  readonly delivered: number;
  readonly givenUp: number;
  readonly refused: number;
  /** The most that was seen waiting. */
  readonly queued: number;
  readonly oldestMs: number;
}

export interface TrafficStep extends TrafficCounts {
  /** Its beginning. */
  readonly at: number;
  readonly stepMs: number;
}

/** How many attempts of a step took how long: see domain/duration-histogram.ts. */
export interface DurationCount {
  readonly at: number;
  readonly bucket: number;
  readonly count: number;
}

export interface TrafficQuery {
  readonly scope: Scope;
  /** Steps that begin at or after this time. */
  readonly from: number;
  /** And before this one. */
  readonly to: number;
}

/** Steps in which something happened, oldest first. */
export interface Traffic {
  readonly steps: readonly TrafficStep[];
  readonly durations: readonly DurationCount[];
}

export interface HostTrafficQuery {
  readonly scope: Scope;
  /** Counted in hours: the hour that this time is in is part of it. */
  readonly since: number;
  readonly limit: number;
  /** Only hosts to which something was sent within the time, also where others have something given up or refused. */
  readonly only?: "sent";
}

export interface HostTraffic {
  readonly host: string;
  readonly attempts: number;
  readonly succeeded: number;
  /** Deliveries that are given up now, whenever that was. */
  readonly givenUp: number;
  /** Deliveries that are refused now. */
  readonly refused: number;
  /** Deliveries that failed and are tried again, now. */
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
  /** True where there are more, or where more was to be read than may be. */
  readonly hasMore: boolean;
}

/** An account in the operator's list. */
export interface AccountOverview {
  readonly login: string;
  readonly createdAt: number;
  readonly disabledAt: number | null;
  readonly keysActive: number;
  readonly isRotating: boolean;
  readonly ownLimits: OwnLimits;
  /** Null where it is not disabled. */
  readonly held: HeldWork | null;
  readonly counts: WorkCounts;
  /** Of the last 24 hours. */
  readonly day: Pick<TrafficCounts, "posted" | "delivered" | "givenUp" | "refused">;
}

export interface AccountOverviewQuery {
  /** Part of a login; null is any. */
  readonly part: string | null;
  /** The last login of the page before. */
  readonly after: string | null;
  readonly limit: number;
  readonly now: number;
}

export interface AccountOverviewPage {
  readonly accounts: readonly AccountOverview[];
  readonly next: string | null;
}

/** Which webhook of a task. */
export interface DeliveryRef {
  readonly taskId: string;
  readonly kind: DeliveryKind;
}
