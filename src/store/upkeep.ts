/** What the store takes about erasing, and what it does about its file; re-exported by store.ts. */

/** How the store looks after the file that it is kept in. */
export interface FileCare {
  /** Looks whether the file is still where it was and what it was; where not, that is its fault from now on. */
  lookAtFile(): void;
  /** Looks for damage in the next part of the file, beside everything else. What is found is its fault from now on. */
  checkFile(): Promise<"more" | "done">;
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
