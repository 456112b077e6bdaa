import type { Task } from "../domain/task/task.ts";
import type {
  AttemptResult,
  Delivery,
  DeliveryDecision,
  DeliveryFilter,
  DeliveryKind,
  DeliveryState,
  EndedDeliveryState,
} from "../domain/webhook/delivery.ts";

export type { Attempt, Delivery } from "../domain/webhook/delivery.ts";

/** What the store takes and gives about deliveries; re-exported by store.ts. */

/** An account's own way to a host. */
export interface LaneRef {
  readonly accountId: number;
  readonly host: string;
}

/** What is scheduled in a lane: first attempts, and retries, which give way to them. */
export interface Lane extends LaneRef {
  /** When its earliest first attempt is due; null when none is scheduled. */
  readonly freshDueAt: number | null;
  /** When its earliest retry is due; null when none is scheduled. */
  readonly retryDueAt: number | null;
}

export interface LaneClaim {
  readonly lanes: readonly LaneShare[];
  readonly now: number;
}

/** How many attempts of a lane a claim may start. */
export interface LaneShare extends LaneRef {
  readonly fresh: number;
  readonly retries: number;
}

/** An attempt that was started. */
export interface AttemptRef {
  readonly seq: number;
  readonly taskSeq: number;
  readonly accountId: number;
  readonly taskId: string;
  readonly kind: DeliveryKind;
  readonly number: number;
  /** Retries used up by this attempt and those before it; 0 for a first attempt. */
  readonly retry: number;
  readonly host: string;
  readonly dueAt: number;
  readonly startedAt: number;
}

/** An attempt that was started, with all that sending it needs. */
export interface ClaimedAttempt extends AttemptRef {
  readonly url: string;
  readonly webhookSecret: string;
  readonly webhookSecretNext: string | null;
  /** Without its texts where there are `largeBytes`. */
  readonly task: Task;
  /** How much a large postback's texts take; null for any other, whose request is made of what is here. */
  readonly largeBytes: number | null;
}

export interface ClaimedAttempts {
  readonly attempts: readonly ClaimedAttempt[];
  /** What is left in each lane that was asked for; in those of a disabled account nothing. */
  readonly lanes: readonly Lane[];
  /** Accounts that were asked for and are disabled. */
  readonly held: readonly number[];
}

/** Which lanes count as proven after a start. */
export interface ProvenQuery {
  /** They delivered something since then. */
  readonly since: number;
  /** Of all accounts together. */
  readonly max: number;
}

export interface AttemptRecord {
  readonly attempt: AttemptRef;
  readonly result: AttemptResult;
  readonly endedAt: number;
  readonly decision: DeliveryDecision;
}

export interface Redelivery {
  readonly accountId: number;
  readonly id: string;
  /** Null is all kinds. */
  readonly kind: DeliveryKind | null;
  /** Only what has ended so; null is whatever has ended, and what is scheduled is made due. */
  readonly states: readonly EndedDeliveryState[] | null;
  readonly now: number;
}

// For the operator, who sees every account

/** A task with what became of its webhooks, and what they are signed with. */
export interface TaskDeliveries {
  readonly login: string;
  readonly webhookSecret: string;
  readonly webhookSecretNext: string | null;
  readonly task: Task;
  readonly deliveries: readonly Delivery[];
}

/** One delivery in a list: where it stands, and how its last attempt ended. */
export interface DeliverySummary {
  /** Place in the list: newest attempts first. */
  readonly seq: number;
  readonly taskId: string;
  readonly login: string;
  readonly kind: DeliveryKind;
  readonly url: string;
  readonly state: DeliveryState;
  /** When its next attempt is due; null when none is scheduled. */
  readonly nextDueAt: number | null;
  /** Of the last attempt that has ended; null when none has. */
  readonly last: DeliverySummaryEnd | null;
}

export type DeliverySummaryEnd = Pick<AttemptResult, "outcome" | "httpStatus" | "error"> & {
  readonly number: number;
  readonly endedAt: number;
};

export interface DeliveryQuery {
  readonly filter: DeliveryFilter;
  readonly limit: number;
  /** `seq` of the last row of the page before. */
  readonly before: number | null;
}

/** How many ended deliveries a filter means, in all and for each host (the most numerous first). */
export interface DeliveryCount {
  readonly deliveries: number;
  readonly hosts: readonly { readonly host: string; readonly deliveries: number }[];
}

/** The operator's order to send many deliveries again. The daemon works it off, so many a second. */
export interface NewRedeliveryOrder {
  readonly id: string;
  readonly filter: DeliveryFilter;
  readonly perSecond: number;
  readonly createdAt: number;
}

/** An order to be kept. */
export interface RedeliveryRequest extends NewRedeliveryOrder {
  /** Not kept while so many orders of its filter's login are open; null is no limit. */
  readonly openMax: number | null;
}

export interface RedeliveryOrder extends NewRedeliveryOrder {
  /** Deliveries that were given a fresh series so far. */
  readonly redelivered: number;
  readonly endedAt: number | null;
  readonly isCancelled: boolean;
}

export interface RedeliveryStep {
  /** Lanes that now have an attempt due. */
  readonly lanes: readonly LaneRef[];
  readonly redelivered: number;
  /** Nothing is left of this order. */
  readonly isDone: boolean;
}
