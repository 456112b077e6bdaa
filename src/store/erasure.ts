import type { RetentionEnd } from "../domain/retention.ts";

/** What the store takes and gives about what an operator cancels and erases; re-exported by store.ts. */

export interface ErasureStore {
  /**
   * Cancels tasks of an account that wait, and those that run where it says so: a page of a walk through them, which
   * looks at some thousand at most, and which `next` goes on with.
   */
  cancelTasks(order: BulkCancel): Promise<CancelledPage>;
  /** Erases a task of any account with all that belongs to it, in whatever state it is. */
  eraseTask(order: TaskErasure): Promise<"erased" | "running" | "to be sent" | "unknown">;
  /**
   * Erases a part of what there is of a disabled account, in the end the account itself; to be called until it is `done`.
   * Its numbers stay in those of all accounts together. What still runs ends without a trace.
   */
  eraseAccountPart(order: { login: string }): Promise<ErasedPart>;
}

/** A place among an account's tasks: the one that was looked at last. */
export interface OpenTaskPlace {
  readonly state: "delayed" | "queued" | "running";
  readonly createdAt: number;
  readonly seq: number;
}

export interface BulkCancel extends RetentionEnd {
  readonly accountId: number;
  /** Null: of any. */
  readonly type: string | null;
  readonly tag: string | null;
  /** True to cancel those that run, too. */
  readonly hasRunning: boolean;
  /** True to count them only. */
  readonly isDry: boolean;
  readonly cancelledAt: number;
  readonly after: OpenTaskPlace | null;
}

export interface CancelledPage {
  readonly queued: number;
  readonly running: number;
  /** Null where the walk is at its end. */
  readonly next: OpenTaskPlace | null;
}

export interface TaskErasure {
  readonly id: string;
  /** True to erase it also while a webhook of it is still to be sent, which is then sent no more. */
  readonly hasWebhooks: boolean;
}

export type ErasedPart =
  | { readonly kind: "more"; readonly tasks: number }
  | { readonly kind: "done" }
  /** Nothing is erased of it. */
  | { readonly kind: "unknown" | "enabled" };
