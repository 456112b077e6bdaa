import type { Task, TaskKey } from "../domain/task/task.ts";
import type { DeliveryPause, PauseScope } from "../domain/webhook/delivery-pause.ts";
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
import type { WebhookSecrets } from "./account.ts";
import type { LeftWork } from "./cluster.ts";
import type { Audited } from "./upkeep.ts";

export type { Attempt, Delivery } from "../domain/webhook/delivery.ts";

/** Remembers deliveries and their attempts. */
export interface DeliveryStore {
  /**
   * Lists the lanes with something scheduled, of all accounts or of one, and when their earliest attempts are due.
   * Leaves out lanes of disabled accounts.
   */
  listLanes(of: { accountId: number | "all" }): Promise<readonly Lane[]>;
  /**
   * Lists the lanes of all accounts with an attempt that became due after `since` and by `until`, with the earliest due
   * times. May also list other lanes with something due by `until`; leaves out lanes of disabled accounts. Quick: where
   * other nodes share the store it is asked once a second, for what they left to this one.
   */
  listDueLanes(interval: { since: number; until: number }): Promise<readonly Lane[]>;
  /**
   * Lists lanes that delivered something lately and have been answered since, the most used first, with an equal share
   * for each account.
   */
  listProvenLanes(query: ProvenQuery): Promise<readonly LaneRef[]>;
  /**
   * Starts due attempts, in each lane up to its share of first attempts and of retries; those that have waited longest
   * go first. Stops short of the shares when the bodies are large. Starts none of a disabled account.
   */
  claimAttempts(claim: LaneClaim): Promise<ClaimedAttempts>;
  /**
   * Makes the request of a large postback under way: of a file in another thread, because that takes milliseconds. Null
   * when the task is erased.
   */
  makeLargePostback(attempt: AttemptRef): Promise<WebhookRequest<Uint8Array> | null>;
  /**
   * Lists the attempts that were in flight when the process that sent them ended. Several nodes may list the lanes of
   * an ended node.
   */
  listInFlight(left: LeftWork): Promise<readonly AttemptRef[]>;
  /**
   * Records how an attempt ended and, in the same step, what follows from it. Does nothing to an attempt that another
   * node has recorded, or that started before this node joined again.
   */
  recordAttempt(record: AttemptRecord): Promise<void>;
  /**
   * Lists a task's deliveries, each with its last attempts, in the order in which they were made. Null for an unknown
   * id and for another account's task alike.
   */
  listDeliveries(key: TaskKey): Promise<readonly Delivery[] | null>;
  /**
   * Lists an account's attempts in the order in which they were scheduled, from a place on: those that have started and
   * those that have not. Without a place, only those that have not, soonest due first. Looks at a bounded number of
   * rows. Where nodes share the store, leaves out what was scheduled within the last seconds: until all nodes have
   * committed theirs, one of them could come before a place that was handed out.
   */
  listAttempts(query: AttemptQuery): Promise<AttemptPage>;
  /**
   * Sends a finished task's webhooks again, all webhooks or one kind. An ended delivery begins a fresh series, a
   * scheduled one becomes due now, and one in flight stays. With `states`, only deliveries that ended in these states
   * begin again, and scheduled ones stay too. Returns the lanes that now have an attempt due.
   */
  redeliver(order: Redelivery & Audited): Promise<readonly LaneRef[]>;
  /** Finds a task of any account with its deliveries; null for an unknown id. */
  findTaskDeliveries(id: string): Promise<TaskDeliveries | null>;
  /** Lists deliveries of finished tasks, those with the newest attempts first. May read the whole log of attempts. */
  listAllDeliveries(query: DeliveryQuery): Promise<readonly DeliverySummary[]>;
  /** Counts the ended deliveries that a filter selects. May read the whole log of attempts. */
  countEndedDeliveries(filter: DeliveryFilter): Promise<DeliveryCount>;
}

export interface AttemptQuery {
  readonly accountId: number;
  /** A place that an earlier page named; null for what is scheduled now. */
  readonly after: number | null;
  readonly limit: number;
  readonly now: number;
}

/** An attempt of an account, with what its task can be chosen by. */
export interface ListedAttempt {
  /** Its own place. The place before it, from which it is the first, is one less. */
  readonly seq: number;
  readonly taskId: string;
  readonly type: string | null;
  readonly tag: string | null;
  readonly kind: DeliveryKind;
  readonly number: number;
  readonly dueAt: number;
  /** Null while it is scheduled. */
  readonly startedAt: number | null;
}

export interface AttemptPage {
  readonly attempts: readonly ListedAttempt[];
  /** The place where the next page begins, also after the last attempt that there is. */
  readonly next: number;
  /** True when there is more to look at now. */
  readonly hasMore: boolean;
}

/** The queue of an account's attempts to one host. */
export interface LaneRef {
  readonly accountId: number;
  readonly host: string;
}

/** The work that is scheduled in a lane: first attempts, and retries, which give way to them. */
export interface Lane extends LaneRef {
  /** When its earliest first attempt is due; null when none is scheduled. */
  readonly freshDueAt: number | null;
  /** When its earliest retry is due; null when none is scheduled. */
  readonly retryDueAt: number | null;
}

/** A lane without work. */
export function emptyLane({ accountId, host }: LaneRef): Lane {
  return { accountId, host, freshDueAt: null, retryDueAt: null };
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

/** An attempt that was started, with everything that is needed to send it. */
export interface ClaimedAttempt extends AttemptRef, WebhookSecrets {
  readonly url: string;
  /** Without its texts when there is a `largeBytes`. */
  readonly task: Task;
  /** The size of a large postback's texts; null for any other postback, whose request is made of the fields here. */
  readonly largeBytes: number | null;
  /** The trace its task was posted in, as it is stored; null for none. */
  readonly traceText: string | null;
}

export interface ClaimedAttempts {
  readonly attempts: readonly ClaimedAttempt[];
  /** The work that is left in each requested lane; a lane of a disabled account has none. */
  readonly lanes: readonly Lane[];
  /** The requested accounts that are disabled. */
  readonly suspended: readonly number[];
}

/** Selects the lanes that count as proven after a start. */
export interface ProvenQuery {
  /** They have delivered something since this time. */
  readonly since: number;
  /** The most lanes, of all accounts together. */
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
  /** Null selects all kinds. */
  readonly kind: DeliveryKind | null;
  /** Selects only deliveries that ended in these states. Null selects every ended one, and makes scheduled ones due. */
  readonly states: readonly EndedDeliveryState[] | null;
  readonly now: number;
}

// For the operator, who sees every account.

/** A task with the deliveries of its webhooks, and the secrets that sign them. */
export interface TaskDeliveries extends WebhookSecrets {
  readonly login: string;
  /** When its account was disabled; null if the account is enabled. */
  readonly disabledAt: number | null;
  readonly task: Task;
  /** The trace it was posted in, as it is stored; null for none. */
  readonly traceText: string | null;
  readonly deliveries: readonly Delivery[];
}

/** One delivery in a list: its state, and how its last attempt ended. */
export interface DeliverySummary {
  /** Its place in the list: newest attempts first. */
  readonly seq: number;
  readonly taskId: string;
  readonly login: string;
  readonly kind: DeliveryKind;
  readonly url: string;
  readonly state: DeliveryState;
  /** When its next attempt is due; null when none is scheduled. */
  readonly nextDueAt: number | null;
  /** The end of the last attempt that has ended; null when none has. */
  readonly last: DeliverySummaryEnd | null;
}

export type DeliverySummaryEnd = Pick<AttemptResult, "outcome" | "httpStatus" | "error"> & {
  readonly number: number;
  readonly endedAt: number;
};

export interface DeliveryQuery {
  readonly filter: DeliveryFilter;
  readonly limit: number;
  /** The `seq` of the last row of the previous page. */
  readonly before: number | null;
}

/** How many ended deliveries a filter selects, in all and for each host (the most numerous first). */
export interface DeliveryCount {
  readonly deliveries: number;
  readonly hosts: readonly { readonly host: string; readonly deliveries: number }[];
}

export type { DeliveryPause, PauseScope } from "../domain/webhook/delivery-pause.ts";

/** Remembers which webhooks the operator pauses. */
export interface DeliveryPauseStore {
  /**
   * Pauses the lanes of a scope until they are resumed. Pausing the same scope again keeps the first pause; `too many`
   * changes nothing.
   */
  pauseDeliveries(
    pause: NewDeliveryPause & Audited,
  ): Promise<"paused" | "paused already" | "too many">;
  /** Ends the pause of exactly this scope; returns false if it does not exist. Other pauses may still cover its lanes. */
  resumeDeliveries(scope: PauseScope & Audited): Promise<boolean>;
  /** Lists all pauses, oldest first. Quick: the daemon asks each second. */
  listDeliveryPauses(): Promise<readonly DeliveryPause[]>;
  /**
   * Counts the scheduled attempts of a scope, paused or not, due or not. May take its time without holding up
   * anything else.
   */
  countScheduled(scope: PauseScope): Promise<number>;
}

export type NewDeliveryPause = PauseScope & Pick<DeliveryPause, "since" | "reason" | "pausedBy">;

/** Remembers orders to send many deliveries again. */
export interface RedeliveryOrderStore {
  /**
   * Keeps an order to send again the deliveries that have ended and pass the filter by now; the engine works it off.
   * Deliveries that end later are not part of it. Returns `busy` if its login has `openMax` open orders, counted in the
   * same step; null means no limit.
   */
  orderRedelivery(
    order: NewRedeliveryOrder & { openMax: number | null } & Audited,
  ): Promise<RedeliveryOrder | "busy">;
  /** Lists orders, newest first, among the newest `ORDERS_LISTED_MAX`. For a login: those whose filter names it. */
  listRedeliveryOrders(query: {
    login: string | null;
    limit: number;
  }): Promise<readonly RedeliveryOrder[]>;
  findRedeliveryOrder(id: string): Promise<RedeliveryOrder | null>;
  /**
   * Ends an order before its time; what it has sent stays sent. Null for an unknown id, and for an order whose filter
   * does not name the login. An order that has ended stays as it is.
   */
  cancelRedeliveryOrder(cancel: {
    id: string;
    login: string | null;
    now: number;
  }): Promise<RedeliveryOrder | null>;
  /** Lists orders that are not finished, oldest first. Leaves out those whose filter names a disabled account. */
  listOpenRedeliveryOrders(query: { limit: number }): Promise<readonly RedeliveryOrder[]>;
  /**
   * Works on an order: looks at some attempts, from where it stopped the last time, and begins a fresh series for up to
   * `max` deliveries. Its progress is kept in the same step. An order that has ended does nothing.
   */
  stepRedeliveryOrder(step: { id: string; max: number; now: number }): Promise<RedeliveryStep>;
}

/** The operator's order to send many deliveries again. The daemon works it off at a rate per second. */
export interface NewRedeliveryOrder {
  readonly id: string;
  readonly filter: DeliveryFilter;
  readonly perSecond: number;
  readonly createdAt: number;
}

export interface RedeliveryOrder extends NewRedeliveryOrder {
  /** The deliveries that were given a fresh series so far. */
  readonly redelivered: number;
  readonly endedAt: number | null;
  readonly isCancelled: boolean;
}

export interface RedeliveryStep {
  /** Lanes that now have an attempt due. */
  readonly lanes: readonly LaneRef[];
  readonly redelivered: number;
  /** True when nothing is left of this order. */
  readonly isDone: boolean;
}
