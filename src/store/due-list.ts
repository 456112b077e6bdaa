import type { DeliveryKind } from "../domain/webhook/delivery.ts";

/** Something that happens by itself when its time has come. */
export interface DueItem {
  /** By the wall clock. */
  readonly at: number;
  readonly what:
    | "attempt"
    | "attempt_timeout"
    | "inbox_answer"
    | "task_start"
    | "run_end"
    | "run_timeout"
    | "lease_end"
    | "erasure";
  /** Null for the answer to a message about no task. */
  readonly taskId: string | null;
  /** Of the webhook; null for what is about none. */
  readonly kind: DeliveryKind | null;
}

/** Lists what waits in a file for its time. It may read all that waits: it is for development. */
export interface DueList {
  /** Up to `max` items after `now`, the earliest first. `steady` is the same moment by the steady clock. */
  list(query: {
    readonly now: number;
    readonly steady: number;
    readonly max: number;
  }): readonly DueItem[];
  /** True while a task waits to be started that could be. */
  isQueued(): boolean;
  close(): void;
}
