/** What the store tells of changes; re-exported by store.ts. */

/** Who is told when something changes. */
export interface ChangeStore {
  /**
   * Tells, soon after each commit of this process, the accounts whose tasks or deliveries it changed; returns what stops it.
   * Told of nothing while nobody listens.
   */
  watch(listener: (accountIds: readonly number[]) => void): () => void;
}
