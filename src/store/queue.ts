import type { LaneRef } from "./delivery.ts";
import type { RunEnd } from "./run.ts";

/** What the store takes and gives about tasks that wait; re-exported by store.ts. */

/** What is remembered of tasks that wait to be started. */
export interface QueueStore {
  /** Lets up to `max` delayed tasks whose time has come into the queue. Answers how many. */
  releaseDelayed(due: { now: number; max: number }): Promise<number>;
  /** Since when the task has waited that has waited longest of each of these types; null: none waits. */
  findOldestQueued(types: readonly string[]): Promise<number | null>;
  /** What there is to do of each of these types, in their order. May take its time without holding up anything else. */
  listTypeWork(query: TypeWorkQuery): Promise<readonly TypeWork[]>;
  /** The types that queued or delayed tasks have. */
  listQueuedTypes(): Promise<readonly string[]>;
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

/** How much there is of a type to do. */
export interface TypeWork {
  readonly type: string;
  readonly running: number;
  /** Queued tasks that may start now; those that were asked for later are none. */
  readonly waiting: number;
  /** True when more wait than were counted. */
  readonly isMoreWaiting: boolean;
  /** Since when the task has waited that has waited longest; null: none waits. */
  readonly oldestAt: number | null;
}

export interface TypeWorkQuery {
  readonly types: readonly string[];
  /** Waiting tasks are counted up to here, of each type. */
  readonly waitingMax: number;
}
