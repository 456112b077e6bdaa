import type { PostQuota, QuotaExcess } from "../domain/account/quota.ts";
import type { RetentionEnd } from "../domain/clock/retention.ts";
import type { TaskProgress } from "../domain/task/progress.ts";
import type {
  NewTask,
  RefusedTask,
  Task,
  TaskKey,
  TaskState,
  TaskSummary,
} from "../domain/task/task.ts";

/** What the store takes and gives about tasks, for clients; re-exported by store.ts. */

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

/** A place in the list of tasks: the last row of the page before. */
export interface TaskCursor {
  readonly createdAt: number;
  readonly seq: number;
}

export interface TaskQuery {
  readonly accountId: number;
  readonly limit: number;
  readonly after: TaskCursor | null;
  readonly state: TaskState | null;
  readonly type: string | null;
  readonly tag: string | null;
  /** Inclusive. */
  readonly createdAfter: number | null;
  /** Exclusive. */
  readonly createdBefore: number | null;
}

export interface TaskPage {
  readonly tasks: readonly TaskSummary[];
  /** Null on the last page. */
  readonly next: TaskCursor | null;
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
