import type { Task, TaskKey } from "../domain/task/task.ts";
import type {
  AttemptResult,
  Delivery,
  DeliveryDecision,
  DeliveryFilter,
  DeliveryKind,
  DeliveryState,
  EndedDeliveryState,
} from "../domain/webhook/delivery.ts";
import type { WebhookRequest } from "../domain/webhook/webhook-request.ts";
import type { LeftWork } from "./cluster.ts";

export type { Attempt, Delivery } from "../domain/webhook/delivery.ts";

/** What the store takes and gives about deliveries; re-exported by store.ts. */

/** What is remembered of deliveries and their attempts. */
export interface DeliveryStore {
  /**
   * The lanes with something scheduled, of all accounts or of one, and when its earliest are due. Those of disabled
   * accounts are not among them.
   */
  listLanes(of: { accountId: number | "all" }): Promise<readonly Lane[]>;
  /**
   * Lanes that delivered something lately and were answered since, the most used first, of each account its part of
   * so many.
   */
  listProvenLanes(query: ProvenQuery): Promise<readonly LaneRef[]>;
  /**
   * Starts due attempts, in each lane up to its share of first attempts and of retries, those first that have
   * waited longest. Stops short of the shares when the bodies are large. Of an account that is disabled it starts none.
   */
  claimAttempts(claim: LaneClaim): Promise<ClaimedAttempts>;
  /** The request of a large postback under way, made in another thread because that takes milliseconds. Null: erased. */
  makeLargePostback(attempt: AttemptRef): Promise<WebhookRequest<Uint8Array> | null>;
  /** Attempts that were in flight when the process that sent them ended. */
  listInFlight(left: LeftWork): Promise<readonly AttemptRef[]>;
  /** Records how an attempt ended and, in the same step, what follows from it. */
  recordAttempt(record: AttemptRecord): Promise<void>;
  /**
   * A task's deliveries, each with its last attempts, in the order they were made, for whoever asks what
   * happened. Null for an unknown id and for another account's alike.
   */
  listDeliveries(key: TaskKey): Promise<readonly Delivery[] | null>;
  /**
   * Sends a finished task's webhooks again, all or those of one kind: what has ended begins a fresh series, what
   * is scheduled becomes due now, what is in flight stays. With states, only what has ended so begins again, and what is
   * scheduled stays too. Answers the lanes that now have an attempt due.
   */
  redeliver(order: Redelivery): Promise<readonly LaneRef[]>;
  /** A task of any account with its deliveries; null for an unknown id. */
  findTaskDeliveries(id: string): Promise<TaskDeliveries | null>;
  /** Deliveries of finished tasks, those with the newest attempts first. May read the whole log of attempts. */
  listAllDeliveries(query: DeliveryQuery): Promise<readonly DeliverySummary[]>;
  /** How many deliveries that have ended a filter means. May read the whole log of attempts. */
  countEndedDeliveries(filter: DeliveryFilter): Promise<DeliveryCount>;
}

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
