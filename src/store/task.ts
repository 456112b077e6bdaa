import type { PostQuota, QuotaExcess } from "../domain/account/quota.ts";
import type { RetentionEnd } from "../domain/clock/retention.ts";
import type { TaskProgress } from "../domain/task/progress.ts";
import type { TaskSearch } from "../domain/task/task-search.ts";
import type { NewTask, RefusedTask, Task, TaskKey, TaskSummary } from "../domain/task/task.ts";
import type { OpenState, TaskCancels } from "./bulk-cancel.ts";
import type { Scope } from "./traffic.ts";

/** What the store takes and gives about tasks, for clients; re-exported by store.ts. */

/** What is remembered of tasks, for those who post them. */
export interface TaskStore {
  /**
   * Takes in posted tasks, refused ones included, and with them the answer to repeat for an idempotency key.
   * A key that is kept until `steadyAt` or longer is answered with what was kept, and nothing is taken in; nor is it
   * where the account would then have more than its quota: counted in the same step. Rejects with `overloaded` when the
   * backlog is full.
   */
  insertTasks(post: TaskPost): Promise<TaskPostOutcome>;
  /** The answer that is kept for an idempotency key until `steadyAt` or longer; null when there is none. */
  findKeptAnswer(query: KeptAnswerQuery): Promise<KeptAnswer | null>;
  /** An account's task, a large one as its envelope; null for an unknown id and for another account's alike. */
  findTask(look: TaskLook): Promise<FoundTask | null>;
  /** Takes a task out of tasks_ready. */
  collectTask(key: TaskKey): Promise<void>;
  /**
   * Cancels a task that is queued or running: it never runs, is never ready and sends nothing. A task that has
   * ended stays as it is.
   */
  cancelTask(cancel: TaskCancel): Promise<CancelOutcome>;
  /**
   * Cancels those tasks of an account that are in one of these states by now; the others, and what is unknown, stay as
   * they are. Answers which were cancelled, by the state that they were in.
   */
  cancelTasks(order: TaskCancels): Promise<Readonly<Record<OpenState, readonly string[]>>>;
  /** Erases a task of any account with all that belongs to it, in whatever state it is. */
  eraseTask(order: TaskErasure): Promise<"erased" | "running" | "to be sent" | "unknown">;
  /**
   * Tasks that pass a search, newest first, as clients see them. May take its time without holding up anything else.
   * A page that would be larger than a megabyte ends before `limit`, and so does one that found too little among
   * {@link TASKS_EXAMINED_MAX} tasks, empty even; either with the place where the next one begins.
   */
  listTasks(query: TaskQuery): Promise<TaskPage>;
  /** Those of them that finished and were not collected, oldest completion first. */
  listReady(query: ReadyQuery): Promise<TaskPage>;
}

export interface TaskPost {
  readonly accountId: number;
  readonly createdAt: number;
  readonly accepted: readonly NewTask[];
  readonly refused: readonly RefusedTask[];
  /** How long the refused ones are kept. */
  readonly refusedUntil: RetentionEnd;
  /** Null when the client gave no idempotency key. */
  readonly idempotency: Idempotency | null;
  readonly quota: PostQuota;
}

/** A client's promise that the same key is the same request, and the answer that is kept for it. */
export interface Idempotency extends KeptAnswer {
  readonly key: string;
  /** Now, by the steady clock: an answer that was to be kept until an earlier time is forgotten. */
  readonly steadyAt: number;
  /** Until when this one is kept, by the steady clock. */
  readonly eraseAt: number;
}

export interface KeptAnswer {
  /** SHA-256 of the request's body in lower-case hex. */
  readonly bodyHash: string;
  /** The body of the answer. */
  readonly answerText: string;
}

export interface KeptAnswerQuery {
  readonly accountId: number;
  readonly key: string;
  /** Now, by the steady clock. */
  readonly steadyAt: number;
}

export type TaskPostOutcome =
  | { readonly kind: "inserted" }
  /** Nothing was inserted: this key was used before, for a body with this hash. */
  | ({ readonly kind: "kept" } & KeptAnswer)
  /** Nothing was inserted: the account would have more than it may. */
  | ({ readonly kind: "over quota" } & QuotaExcess);

export interface TaskCancel extends RetentionEnd {
  readonly accountId: number;
  readonly id: string;
  readonly cancelledAt: number;
}

/** `finished`: it completed or failed before. `unknown`: no such task, or another account's. */
export type CancelOutcome = "cancelled" | "cancelled before" | "finished" | "unknown";

/** A place in a list of tasks: the time by which the list is ordered, and the task's row number. */
export interface TaskPlace {
  readonly timeMs: number;
  readonly seq: number;
}

/**
 * How many tasks a page may look at: one that found too little among them ends there. Measured with 300,000 tasks of two
 * webhooks each: 20 ms for the dearest search, in turns with the reads of others.
 */
export const TASKS_EXAMINED_MAX = 20_000;

/** Which tasks a page shows. */
export interface TaskQuery {
  readonly scope: Scope;
  readonly search: TaskSearch;
  readonly limit: number;
  /** `next` of the page before. */
  readonly after: TaskPlace | null;
}

/** The same of ready tasks, which each account collects for itself. */
export interface ReadyQuery extends TaskQuery {
  readonly scope: number;
}

export interface TaskPage<Row = TaskSummary> {
  readonly tasks: readonly Row[];
  /** Where the next page begins; null when everything has been looked at. */
  readonly next: TaskPlace | null;
  /** The time of the last task that was looked at; null when none was. */
  readonly examinedUntil: number | null;
}

/** Which task is wanted, and how far its run has come, which the store does not know. */
export interface TaskLook extends TaskKey {
  readonly progress?: TaskProgress | null;
}

export interface FoundTask {
  /** Without `inputText`, `resultText` and `errorText` where there is an `envelope`. */
  readonly task: Task;
  /** True while the task stands in tasks_ready. */
  readonly isReady: boolean;
  /** Of a large task only: made in another thread, because to make it takes milliseconds. */
  readonly envelope?: EnvelopeBytes;
}

/** A task's envelope as UTF-8, and its entity tag. */
export interface EnvelopeBytes {
  readonly bytes: Uint8Array;
  readonly tag: string;
}

export interface TaskErasure {
  readonly id: string;
  /** True to erase it also while a webhook of it is still to be sent, which is then sent no more. */
  readonly hasWebhooks: boolean;
}
