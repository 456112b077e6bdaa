/** What the store takes about erasing; re-exported by store.ts. */

export interface StaleBefore {
  /** Kept answers from before this time. */
  readonly answersBefore: number;
  /** Access requests that were decided, and redelivery orders that ended, before this time. */
  readonly decidedBefore: number;
  /** Sessions from before this time. */
  readonly sessionsBefore: number;
  /** Sign-in links that expired before this time. */
  readonly linksBefore: number;
  /** Traffic, and failures of hosts, from before this time. */
  readonly trafficBefore: number;
}
