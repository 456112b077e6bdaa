import type { Account } from "../domain/account.ts";
import type { KeyHolder } from "../domain/credentials.ts";
import type { AttemptResult, DeliveryDecision, DeliveryKind } from "../domain/delivery.ts";
import type { StatusCode } from "../domain/status.ts";
import type { NewTask, RefusedTask, Task, TaskSummary } from "../domain/task.ts";

/**
 * What postbackd remembers, in the words of its domain. One method is one atomic step: it happens whole
 * and is on disk when its promise settles, or it has not happened. Rules live in the domain; a store
 * decides nothing that a second store would have to decide again.
 *
 * Every method may reject with a {@link StoreError}; anything else it rejects with is a bug.
 */
export interface Store {
  // Accounts and keys

  /** Makes an account with its first key. `exists` when the login is taken; nothing is changed then. */
  createAccount(account: NewAccount): Promise<"created" | "exists">;
  /** All accounts, by login. */
  listAccounts(): Promise<readonly Account[]>;
  /** Disables (a time) or enables (null) an account; disabling twice keeps the first time. */
  setAccountDisabled(change: { login: string; disabledAt: number | null }): Promise<Account | null>;
  /** Adds a key unless the account has `activeMax` active ones already; counted in the same step. */
  createKey(key: NewKey): Promise<"created" | "no account" | "limit reached">;
  /** An account's keys, oldest first; null when there is no such account. */
  listKeys(login: string): Promise<readonly Key[] | null>;
  /** Revokes a key; again keeps the first time. Null when there is no such key. */
  revokeKey(change: { keyId: string; revokedAt: number }): Promise<Key | null>;
  /** Whose key this is. Reads what is committed now, by whichever process. */
  findKeyHolder(keyHash: string): Promise<KeyHolder | null>;

  // Tasks, for clients

  /** Takes in posted tasks, refused ones included. Rejects with `overloaded` when the backlog is full. */
  insertTasks(post: TaskPost): Promise<void>;
  /** An account's task; null for an unknown id and for another account's alike. */
  findTask(key: { accountId: number; id: string }): Promise<FoundTask | null>;
  /** Takes a task out of tasks_ready. */
  collectTask(key: { accountId: number; id: string }): Promise<void>;
  /** Tasks that finished and were not collected, oldest completion first. */
  listReady(query: ReadyQuery): Promise<ReadyPage>;

  // Tasks, for the engine

  /** Starts up to `max` queued tasks of a type, by priority, then age; counts the run. */
  claimTasks(claim: { type: string; max: number; now: number }): Promise<readonly ClaimedTask[]>;
  /**
   * Records how a run ended and makes the first attempt of each webhook due at `endedAt`. Does nothing to
   * a task that is not running. Answers the hosts that now have an attempt due.
   */
  finishTask(finish: TaskFinish): Promise<readonly string[]>;
  /** Puts a running task back into the queue after a failed run, to start at `startAt`. */
  retryTask(retry: { seq: number; startAt: number }): Promise<void>;
  /** Puts running tasks back into the queue, all or one; their runs stay counted. Answers how many. */
  requeueTasks(which: { seq: number | "all" }): Promise<number>;
  /** Lets up to `max` delayed tasks whose time has come into the queue. Answers how many. */
  releaseDelayed(due: { now: number; max: number }): Promise<number>;

  // Deliveries

  /** Every host with a scheduled attempt, and when its earliest is due. */
  listLanes(): Promise<readonly Lane[]>;
  /** Starts due attempts: in each lane up to its `max`, fresh ones before retries, then by due time. */
  claimAttempts(claim: LaneClaim): Promise<ClaimedAttempts>;
  /** Attempts that were in flight when the process that sent them ended. */
  listInFlight(): Promise<readonly AttemptRef[]>;
  /** Records how an attempt ended and, in the same step, what follows from it. */
  recordAttempt(record: AttemptRecord): Promise<void>;
  /** A task's deliveries with their attempts, for whoever asks what happened. */
  listDeliveries(key: { accountId: number; id: string }): Promise<readonly Delivery[] | null>;

  // Upkeep

  /** Erases up to `max` tasks whose retention is over, with all that belongs to them. Answers how many. */
  eraseExpired(due: { now: number; max: number }): Promise<number>;
  /** Gives a bounded part of the space that erased tasks left back to the file system. */
  reclaimSpace(): Promise<"more" | "done">;
  /** What keeps the store from writing for good; null while it can. */
  fault(): StoreError | null;
  /** Finishes what was asked for before, then lets go of the file. Safe to call twice. */
  close(): Promise<void>;
}

export type StoreErrorKind =
  /** An I/O error: nothing is written any more until a restart, because nothing can be trusted. */
  | "failed"
  /** The disk is full: this step did not happen; a later one may. */
  | "full"
  /** Another process holds the file, or the backlog of writes is at its limit: try again later. */
  | "busy"
  | "overloaded"
  /** The store was closed. */
  | "closed";

/** Why the store could not do a step. Nothing of the step has happened. */
export class StoreError extends Error {
  override readonly name = "StoreError" as const;
  readonly kind: StoreErrorKind;
  constructor(kind: StoreErrorKind, message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }

  /** True when the same step may succeed later. */
  get isPassing(): boolean {
    return this.kind === "full" || this.kind === "busy" || this.kind === "overloaded";
  }
}

export interface NewAccount {
  readonly login: string;
  readonly webhookSecret: string;
  readonly createdAt: number;
  readonly firstKey: KeyToStore;
}

/** What is stored of a new key: never the key itself. */
export interface KeyToStore {
  readonly keyId: string;
  readonly hash: string;
  readonly lastFour: string;
  readonly label: string | null;
}

export interface NewKey extends KeyToStore {
  readonly login: string;
  readonly createdAt: number;
  readonly activeMax: number;
}

export interface Key {
  readonly keyId: string;
  readonly lastFour: string;
  readonly label: string | null;
  readonly createdAt: number;
  readonly lastUsedAt: number | null;
  readonly revokedAt: number | null;
}

export interface TaskPost {
  readonly accountId: number;
  readonly createdAt: number;
  readonly accepted: readonly NewTask[];
  readonly refused: readonly RefusedTask[];
  /** When the refused ones may be erased. */
  readonly refusedExpireAt: number;
}

export interface FoundTask {
  readonly task: Task;
  /** True while the task stands in tasks_ready. */
  readonly isReady: boolean;
}

/** A place in the list of ready tasks: the last row of the page before. */
export interface ReadyCursor {
  readonly completedAt: number;
  readonly seq: number;
}

export interface ReadyQuery {
  readonly accountId: number;
  readonly limit: number;
  readonly after: ReadyCursor | null;
  readonly tag: string | null;
  readonly type: string | null;
}

export interface ReadyPage {
  readonly tasks: readonly TaskSummary[];
  /** Null on the last page. */
  readonly next: ReadyCursor | null;
}

export interface ClaimedTask {
  readonly seq: number;
  readonly id: string;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  readonly inputText: string | null;
  /** How many of its runs failed or timed out. */
  readonly failures: number;
}

export interface TaskFinish {
  readonly seq: number;
  readonly state: "completed" | "failed";
  readonly code: StatusCode;
  readonly resultText: string | null;
  readonly errorText: string | null;
  readonly endedAt: number;
  readonly expiresAt: number;
}

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
