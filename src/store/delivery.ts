import type { AttemptResult, DeliveryDecision, DeliveryKind } from "../domain/delivery.ts";
import type { Task } from "../domain/task.ts";

/** What the store takes and gives about deliveries; re-exported by store.ts. */

/** A host's queue of scheduled attempts. */
export interface Lane {
  readonly host: string;
  /** When its earliest scheduled attempt is due; null when none is scheduled. */
  readonly dueAt: number | null;
}

export interface LaneClaim {
  readonly lanes: readonly { readonly host: string; readonly max: number }[];
  readonly now: number;
}

export interface AttemptRef {
  readonly seq: number;
  readonly taskSeq: number;
  readonly kind: DeliveryKind;
  readonly number: number;
  readonly retry: number;
  readonly host: string;
  readonly dueAt: number;
}

/** An attempt that was started, with all that sending it needs. */
export interface ClaimedAttempt extends AttemptRef {
  readonly url: string;
  readonly webhookSecret: string;
  readonly webhookSecretNext: string | null;
  readonly task: Task;
}

export interface ClaimedAttempts {
  readonly attempts: readonly ClaimedAttempt[];
  /** What is left in each lane that was asked for. */
  readonly lanes: readonly Lane[];
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
  readonly now: number;
}

export interface Attempt extends AttemptResultRecord {
  readonly number: number;
  readonly dueAt: number;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
}

/** As {@link AttemptResult}; the outcome is null while the attempt is scheduled or in flight. */
export type AttemptResultRecord = Omit<AttemptResult, "outcome"> & {
  readonly outcome: AttemptResult["outcome"] | null;
};

export interface Delivery {
  readonly kind: DeliveryKind;
  readonly url: string;
  readonly state: "scheduled" | "in_flight" | "delivered" | "given_up" | "refused";
  readonly attempts: readonly Attempt[];
}
