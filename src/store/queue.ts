import type { LaneRef } from "./delivery.ts";
import type { RunEnd } from "./run.ts";

/** Remembers tasks that wait to be started. */
export interface QueueStore {
  /** Lets up to `max` delayed tasks whose time has come into the queue. Answers how many. */
  releaseDelayed(due: { now: number; max: number }): Promise<number>;
  /** When the longest-waiting task of these types was queued; null when none waits. */
  findOldestQueued(types: readonly string[]): Promise<number | null>;
  /** Lists the work of each of these types, in their order. May take its time without holding up anything else. */
  listTypeWork(query: TypeWorkQuery): Promise<readonly TypeWork[]>;
  /** Lists the types of queued and delayed tasks. */
  listQueuedTypes(): Promise<readonly string[]>;
  /**
   * Finds those of these types that have a queued task; it may be a disabled account's. Quick: where other nodes share
   * the store it is asked once a second, for what they queued.
   */
  findWaitingTypes(types: readonly string[]): Promise<readonly string[]>;
  /**
   * Adds time for which the queue was served, and sets a mark when the last one has been served for `everyMs`. Answers
   * the newest mark since which the queue was served for `queueMs`; null when there is none yet. Forgets the marks
   * before it.
   */
  markQueue(served: { servedMs: number; everyMs: number; queueMs: number }): Promise<number | null>;
  /**
   * Ends up to `max` tasks that have been in the queue since `mark` or longer, as finishTask does. Looks at a few
   * thousand at most: a page of a walk through the queue, which `next` continues.
   */
  expireQueued(expiry: QueueExpiry): Promise<ExpiredPage>;
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
  /** The lanes that now have an attempt due. */
  readonly lanes: readonly LaneRef[];
  /** Null when the walk is at its end. */
  readonly next: QueuePlace | null;
}

export interface ExpiredTask {
  readonly id: string;
  readonly type: string;
}

/** The amount of work there is for a type. */
export interface TypeWork {
  readonly type: string;
  readonly running: number;
  /** Queued tasks that may start now; those that were asked for later do not count. */
  readonly waiting: number;
  /** True when more wait than were counted. */
  readonly isMoreWaiting: boolean;
  /** When the longest-waiting task was queued; null when none waits. */
  readonly oldestAt: number | null;
}

export interface TypeWorkQuery {
  readonly types: readonly string[];
  /** The most waiting tasks that are counted of each type. */
  readonly waitingMax: number;
}
