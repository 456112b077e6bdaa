import type { LaneRef } from "./delivery.ts";
import type { RunEnd } from "./lease.ts";

/** What the store takes and gives about tasks that wait for too long; re-exported by store.ts. */

export interface QueueStore {
  /**
   * Adds time for which the queue was served, and sets a mark where the last one is `everyMs` of it old. Answers the newest
   * mark since which it was served for `queueMs`; null: there is none yet. Those before it are forgotten.
   */
  markQueue(served: QueueService): Promise<number | null>;
  /**
   * Ends up to `max` tasks that are in the queue since `mark` or longer, as finishTask does, and looks at some thousand
   * at most: a page of a walk through the queue, which `next` goes on with.
   */
  expireQueued(expiry: QueueExpiry): Promise<ExpiredPage>;
}

export interface QueueService {
  readonly servedMs: number;
  readonly everyMs: number;
  readonly queueMs: number;
}

/** A place in the queue: the task that was looked at last. */
export interface QueuePlace {
  readonly type: string;
  readonly accountId: number;
  readonly priority: number;
  readonly seq: number;
}

export interface QueueExpiry {
  readonly mark: number;
  /** Null at the beginning of a walk. */
  readonly after: QueuePlace | null;
  readonly max: number;
  readonly end: RunEnd;
}

export interface ExpiredPage {
  readonly tasks: readonly ExpiredTask[];
  /** Those that now have an attempt due. */
  readonly lanes: readonly LaneRef[];
  /** Null where the walk is at its end. */
  readonly next: QueuePlace | null;
}

export interface ExpiredTask {
  readonly id: string;
  readonly type: string;
}
