import type { StoreError } from "./store-error.ts";

/** What the store takes and gives about its upkeep; re-exported by store.ts. */

/** How the store is kept in order, and says how it is. */
export interface UpkeepStore {
  /** Keeps `fresh` under a name under which nothing is kept; answers what is kept, the same to every daemon of the file. */
  keepSecret(secret: { name: "cursors"; fresh: string }): Promise<string>;
  /**
   * Looks at up to `max` tasks whose retention is over, `now` by the steady clock; fewer when they are large, so that
   * nothing else waits for long. Erases them with all that belongs to them; one that has a webhook still to be sent is
   * kept, and looked at again after an hour. Answers at how many it looked: 0 when none is left.
   */
  eraseExpired(due: { now: number; max: number }): Promise<number>;
  /**
   * Erases up to `max` each of kept answers, decided access requests, ended redelivery orders, sessions and traffic from
   * before their times; else the same.
   */
  eraseStale(due: StaleBefore & { max: number }): Promise<number>;
  /** How much of the file is data: what erased tasks left is not counted. In bytes. */
  usedBytes(): Promise<number>;
  /** Gives a bounded part of the space that erased tasks left back to the file system. */
  reclaimSpace(): Promise<"more" | "done">;
  /** Why the last write found no room (kind `full`); null once one has found some. */
  shortage(): StoreError | null;
  /** Writes what changes nothing. Rejects with a StoreError where there is no room for it. */
  tryWrite(): Promise<void>;
  /** Looks whether the file is still where it was and what it was; where not, that is its fault from now on. */
  lookAtFile(): void;
  /** Looks for damage in the next part of the file, beside everything else. What is found is its fault from now on. */
  checkFile(): Promise<"more" | "done">;
  /** What keeps the store from writing for good; null while it can. */
  fault(): StoreError | null;
  /** Finishes what was asked for before, then lets go of the file. Safe to call twice. */
  close(): Promise<void>;
}

export interface StaleBefore {
  /** Kept answers that were to be kept until before this time of the steady clock. */
  readonly answersBefore: number;
  /** Access requests that were decided, and redelivery orders that ended, before this time. */
  readonly decidedBefore: number;
  /** Sessions from before this time of the steady clock. */
  readonly sessionsBefore: number;
  /** Sign-in links that expired before this time. */
  readonly linksBefore: number;
  /** Traffic, and failures of hosts, from before this time. */
  readonly trafficBefore: number;
  /** Requests, orders and traffic from after this time: what a clock that was ahead has left in the future. */
  readonly recordsAfter: number;
}
