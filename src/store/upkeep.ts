import type { StoreError } from "./store-error.ts";

/** Keeps the store in order, and tells its condition. */
export interface UpkeepStore {
  /**
   * Keeps `fresh` under a name that has no secret yet. Answers the secret that is kept, the same for every daemon of
   * the file: what cursors are sealed with. Two are not secret: what serves the file, and the id of the installation.
   */
  keepSecret(secret: { name: "cursors" | "mode" | "installation"; fresh: string }): Promise<string>;
  /**
   * Looks at up to `max` tasks whose retention is over, `now` by the steady clock; at fewer when they are large, so
   * that nothing else waits for long. Erases them with everything that belongs to them. A task with a webhook still to
   * be sent is kept, and looked at again after an hour. Answers how many it looked at, 0 when none is left, and the ids of
   * those that it erased, in the order in which they were due.
   */
  eraseExpired(due: { now: number; max: number }): Promise<ExpiredErased>;
  /**
   * Erases, as {@link eraseExpired} does, up to `max` each of kept answers, access requests, revoked keys, ended redelivery
   * orders, sessions, entries of the audit and traffic from before their times.
   */
  eraseStale(due: StaleBefore & { max: number }): Promise<number>;
  /** How many bytes of the file are data: the space that erased tasks left does not count. */
  usedBytes(): Promise<number>;
  /** Gives a bounded part of the space that erased tasks left back to the file system. */
  reclaimSpace(): Promise<"more" | "done">;
  /** Why the last write found no room (kind `full`); null once a write has found some. */
  shortage(): StoreError | null;
  /** Makes a write that changes nothing. Rejects with a StoreError when there is no room for it. */
  tryWrite(): Promise<void>;
  /** Checks that the file is still in its place and still the same. If not, that is its fault from now on. */
  lookAtFile(): void;
  /** Looks for damage in the next part of the file, beside everything else. Any damage is its fault from now on. */
  checkFile(): Promise<"more" | "done">;
  /** The reason why the store cannot write any more; null while it can. */
  fault(): StoreError | null;
  /** Finishes what was asked for before, then closes the file. Safe to call twice. */
  close(): Promise<void>;
}

export interface ExpiredErased {
  readonly looked: number;
  readonly erased: readonly string[];
}

export interface StaleBefore {
  /** Kept answers that were to be kept until before this time of the steady clock. */
  readonly answersBefore: number;
  /** Access requests that were decided, keys that were revoked, and redelivery orders that ended, before this time. */
  readonly decidedBefore: number;
  /** Access requests that wait and were made before this time. */
  readonly pendingBefore: number;
  /** Sessions from before this time of the steady clock. */
  readonly sessionsBefore: number;
  /** Sign-in links that expired before this time. */
  readonly linksBefore: number;
  /** Entries of the audit from before this time. */
  readonly auditBefore: number;
  /** Traffic, and failures of hosts, from before this time. */
  readonly trafficBefore: number;
  /** Requests, keys, orders and traffic from after this time: a clock that was ahead has left them in the future. */
  readonly recordsAfter: number;
}
