import type { LeaseEnding } from "./lease/lease.ts";
import type { AttemptOutcome, DeliveryKind, EndedDeliveryState } from "./webhook/delivery.ts";

/** Is called once for each thing that is on disk, and learns no account, task, URL or key. */
export interface Observer {
  readonly request?: Listener<ObservedRequest> | undefined;
  readonly commit?: Listener<ObservedCommit> | undefined;
  readonly refusal?: Listener<ObservedRefusal> | undefined;
  readonly post?: Listener<ObservedPost> | undefined;
  readonly start?: Listener<ObservedStart> | undefined;
  readonly run?: Listener<ObservedRun> | undefined;
  readonly end?: Listener<ObservedEnd> | undefined;
  readonly attempt?: Listener<ObservedAttempt> | undefined;
}

type Listener<Event> = (event: Event) => void;

export interface ObservedRequest {
  /** Its method and path as in the API's document; null for a page and for other requests without an operation. */
  readonly operation: string | null;
  /** The HTTP status; null when the client had hung up. */
  readonly status: number | null;
  /** Until the answer was made, a wait included. */
  readonly ms: number;
}

/** Writes that one commit brought to disk. */
export interface ObservedCommit {
  /** Those that failed alone are not among them. */
  readonly operations: number;
  /** Since they were handed to the writer, which may have had another batch to write. */
  readonly ms: number;
}

/** A batch of writes that was not written, or may not have been. */
export interface ObservedRefusal {
  readonly reason: "full" | "busy" | "unreachable" | "failed" | "unknown";
}

export interface ObservedPost {
  /** By their type, which is a configured one. */
  readonly accepted: ReadonlyMap<string, number>;
  readonly refused: number;
}

export interface ObservedStart {
  readonly type: string;
  /** Since the task could start; never negative. */
  readonly waitedMs: number;
}

export interface ObservedEnd {
  /** Null where it is not known. */
  readonly type: string | null;
  readonly state: "completed" | "failed" | "cancelled";
}

/** A run that ended by itself. An expired lease is reported as such, and again when its worker reports after all. */
export interface ObservedRun {
  /** Null for a lease that had run out before. */
  readonly type: string | null;
  readonly outcome: Exclude<LeaseEnding, "released" | "cancelled">;
  /** Null where this process did not see it begin. */
  readonly ms: number | null;
}

export interface ObservedAttempt {
  readonly kind: DeliveryKind;
  readonly host: string;
  readonly outcome: AttemptOutcome;
  /** Null where an earlier process made it. */
  readonly ms: number | null;
  /** How much later than due it was begun; null where an earlier process made it. */
  readonly lagMs: number | null;
  readonly state: EndedDeliveryState | "scheduled";
}

/** Current amounts: they are read on request, and not reported. */
export interface Gauges {
  /** Every configured type. */
  readonly queue: readonly QueueGauge[];
  readonly lanes: LaneGauge;
}

/** So many waiting tasks of a type are counted. An index entry each: some milliseconds, in a thread of its own. */
export const WAITING_COUNTED_MAX = 10_000;

export interface QueueGauge {
  readonly type: string;
  readonly waiting: number;
  /** True when more wait than were counted. */
  readonly isMoreWaiting: boolean;
}

export interface LaneGauge {
  /** Those with an attempt scheduled or under way; of lanes that are held only the latter. */
  readonly lanes: number;
  /** Attempts. */
  readonly underWay: number;
  readonly heldAccounts: number;
  /** Pauses of deliveries, each of everything, a host, an account or one lane. */
  readonly pauses: number;
}
