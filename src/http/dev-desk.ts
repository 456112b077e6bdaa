import type { Attempt, DeliveryKind, DeliveryState } from "../domain/webhook/delivery.ts";
import type { ScriptedAnswer } from "../domain/webhook/inbox.ts";
import type { AuditEntry, DueItem } from "../store/store.ts";

/** The means of the operations of a daemon for development. */
export interface DevDesk {
  readonly clock: DevClockDesk;
  readonly inbox: DevInboxDesk;
  /** Makes a token that signs the operator in, once. */
  readonly makeSignInToken: (audit: AuditEntry) => Promise<string>;
  readonly accounts: DevAccountDesk;
  readonly samples: DevSampleDesk;
  readonly news: DevNewsDesk;
  readonly results: DevResultDesk;
  readonly faults: DevFaultDesk;
  /** Erases all tasks, and whatever else tests made or ordered, but accounts. Answers how many tasks there were. */
  reset(): Promise<number>;
}

export interface DevFaultDesk {
  readonly faults: Faults;
  /** From now on deliveries have these faults. */
  order(faults: Faults): void;
}

/** The share of attempts that have a fault, from 0 to 1, unless the name says another unit. */
export interface Faults {
  /** Sent twice. */
  readonly duplicate: number;
  /** Made after one that was due later. */
  readonly reorder: number;
  /** Sent, answered well, and recorded as timed out. */
  readonly dropAnswer: number;
  /** So much late, every one of them, by the daemon's clock. */
  readonly delayMs: number;
  /** Sent, recorded as interrupted, and so sent again at once. */
  readonly crashDuringAttempt: number;
}

export interface DevNewsDesk {
  /** Settles when the next thing has happened to a task and is on disk, or when `signal` is aborted. */
  next(taskId: string, signal: AbortSignal): Promise<void>;
}

export interface DevResultDesk {
  /** The types that this daemon runs itself: only those have rules. */
  readonly types: ReadonlySet<string>;
  /** From now on the first rule that fits a task ends its run. */
  order(rules: readonly ResultRule[]): void;
  /** Ends the run of a task that is held, and settles when that is on disk. Answers false for any other task. */
  finish(
    id: string,
    how: { readonly end: OrderedEnd; readonly gone: AbortSignal },
  ): Promise<boolean>;
}

export type OrderedEnd =
  /** `text` is JSON. */
  | { readonly kind: "result"; readonly text: string }
  | { readonly kind: "error"; readonly message: string };

export interface ResultRule {
  /** Null fits all types. */
  readonly type: string | null;
  /** Null fits any tag, and none. */
  readonly tag: string | null;
  /** Null holds the run until it is finished by a request. */
  readonly end: OrderedEnd | null;
  /** By the daemon's clock. */
  readonly afterMs: number;
}

export interface DevAccountDesk {
  /**
   * Makes an account, or another key of one that is there; null when it has as many keys as it may have. Without a login
   * it has one of its own.
   */
  make(given: { readonly login?: string }): Promise<DevAccount | null>;
}

export interface DevAccount {
  readonly login: string;
  readonly key: string;
  readonly webhookSecret: string;
}

export interface DevSampleDesk {
  /** Sends a webhook of a task that never was, signed by an account's secret, and without rules or faults. */
  send(order: {
    readonly url: string;
    readonly kind: DeliveryKind;
    readonly login: string;
  }): Promise<SampleSent>;
}

export type SampleSent =
  | { readonly kind: "sent"; readonly taskId: string; readonly attempt: Attempt }
  /** `reason` is a sentence about the URL. */
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "no account" };

export interface DevClockDesk {
  mode: "real" | "manual";
  now(): number;
  /** The next things that fall due, the earliest first. */
  next(max: number): readonly DueItem[];
  /**
   * Moves the clock to a time, or until nothing is scheduled, and lets all happen that falls due on the way. Rejects when
   * `signal` is aborted before.
   */
  advance(destination: Destination, signal: AbortSignal): Promise<Journey>;
}

/** The end of an advance: a time of the wall clock, or a moment at which nothing is scheduled. */
export type Destination = { readonly at: number } | "idle";

/** The time at the end of an advance, and the events since the previous one that arrived. */
export interface Journey {
  readonly now: number;
  readonly events: readonly DevEvent[];
  /** The work that the clock waits for; empty when it has arrived. */
  readonly waitsFor: readonly string[];
}

/** Something that happened and is on disk. */
export interface DevEvent {
  /** By the daemon's clock. */
  readonly at: number;
  readonly event:
    | "run_started"
    | "run_failed"
    | "lease_ended"
    | "task_ended"
    | "attempt_ended"
    | "task_erased";
  readonly taskId: string;
  /** Of a task that has ended. */
  readonly state?: "completed" | "failed" | "cancelled";
  readonly kind?: DeliveryKind;
  readonly attempt?: number;
  readonly outcome?: string;
  readonly httpStatus?: number | null;
  readonly delivery?: DeliveryState;
  /** When it is tried again; null when it is not. */
  readonly nextAt?: number | null;
}

/** Receives whatever is sent to it, in boxes, and shows it. */
export interface DevInboxDesk {
  /** Lists the boxes by name. */
  boxes(): readonly { readonly box: string; readonly messages: readonly InboxMessage[] }[];
  /** The messages of a box, the oldest first; none of a box that does not exist. */
  messages(box: string): readonly InboxMessage[];
  /**
   * Settles when a box holds `count` messages of a kind, when `ms` of the machine's time are over, or when `gone` is
   * aborted.
   */
  wait(box: string, wanted: InboxWait): Promise<void>;
  /** Removes a box, with its messages and the answers that were set. */
  remove(box: string): void;
  /** Removes all boxes. */
  clear(): void;
  /** Sets how the next messages are answered. Throws 42900 where there are too many boxes. */
  setAnswers(box: string, answers: InboxAnswers): void;
  /**
   * Records a request, and settles when and as it is to be answered; with null when nobody waits for that any more. Throws
   * 42900 where there are too many boxes.
   */
  receive(request: InboxRequest, gone: AbortSignal): Promise<ScriptedAnswer | null>;
}

export interface InboxWait {
  readonly isWanted: (message: InboxMessage) => boolean;
  readonly count: number;
  readonly ms: number;
  readonly gone: AbortSignal;
}

export interface InboxAnswers {
  /** One by one. */
  readonly answers: readonly ScriptedAnswer[];
  /** After them. */
  readonly last: ScriptedAnswer;
}

/** A request as it was received. */
export interface InboxRequest {
  readonly box: string;
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** With scheme and host. */
  readonly url: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

export interface InboxMessage extends InboxRequest {
  readonly seq: number;
  readonly receivedAt: number;
  readonly taskId: string | null;
  readonly kind: DeliveryKind | null;
  readonly attempt: number | null;
  readonly signature: {
    readonly verdict: "valid" | "next" | "invalid" | "missing";
    readonly detail: string;
  };
  readonly answered: InboxAnswered;
}

export interface InboxAnswered {
  readonly how: "waiting" | "sent" | "reset" | "gone";
  readonly status: number | null;
  /** By the daemon's clock; null while it waits. */
  readonly afterMs: number | null;
}
