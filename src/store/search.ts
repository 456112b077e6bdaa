import type { LeaseEnding } from "../domain/lease/lease.ts";
import type { TaskSummary } from "../domain/task/task.ts";
import type { DeliveryFilter, DeliveryKind, DeliveryState } from "../domain/webhook/delivery.ts";
import type { DeliveryCount, DeliverySummaryEnd, TaskDeliveries } from "./delivery.ts";
import type { TaskPage, TaskQuery } from "./task.ts";
import type { Scope } from "./traffic.ts";

/** Searches tasks and deliveries. */
export interface SearchStore {
  /**
   * Lists as `listTasks` does, with the state of each task's webhooks instead of what was posted. Does not look beyond
   * a full page: there is always a next one.
   */
  searchTasks(query: TaskQuery): Promise<TaskPage<FoundTaskRow>>;
  /** Finds one task of an account, or of any (null); null for an unknown one. As quick as a look at one task. */
  findTimeline(query: { scope: Scope; id: string }): Promise<TaskTimeline | null>;
  /** Counts a part of what `countEndedDeliveries` counts. */
  countEndedDeliveriesStep(step: DeliveryCountStep): Promise<DeliveryCountPage>;
}

/** A task that was found, with the state of its webhooks. */
export interface FoundTaskRow extends Omit<TaskSummary, "dataText"> {
  readonly login: string;
  readonly tag: string | null;
  readonly priority: number;
  readonly startAt: number | null;
  readonly isReady: boolean;
  readonly deliveries: readonly FoundDelivery[];
}

export interface FoundDelivery {
  readonly kind: DeliveryKind;
  readonly host: string;
  readonly state: DeliveryState | "waiting";
  /** Attempts so far, including the one under way. */
  readonly attempts: number;
  readonly last: Omit<DeliverySummaryEnd, "number"> | null;
  readonly nextDueAt: number | null;
}

/**
 * Everything about one task. It includes input and result only when a postback has carried them, and else null: they
 * may be large.
 */
export interface TaskTimeline extends TaskDeliveries {
  readonly accountId: number;
  readonly isReady: boolean;
  /** The length of input and result, in bytes of JSON text; null where there is none. */
  readonly inputBytes: number | null;
  readonly resultBytes: number | null;
  /** Its newest lease; null when no worker has had it. */
  readonly lease: {
    readonly worker: string;
    readonly claimedAt: number;
    readonly expiresAt: number;
    readonly ending: LeaseEnding | null;
  } | null;
}

/** Part of a count: some of the attempts below `before`. */
export interface DeliveryCountStep {
  readonly filter: DeliveryFilter;
  /** Null begins with the newest attempt. */
  readonly before: number | null;
}

export interface DeliveryCountPage extends DeliveryCount {
  /** Where to go on; null when everything has been looked at. */
  readonly next: number | null;
  readonly examinedUntil: number | null;
}
