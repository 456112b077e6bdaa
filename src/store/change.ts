import type { LaneRef } from "./delivery.ts";

/** What the store tells of changes; re-exported by store.ts. */

/** Who is told when something changes. */
export interface ChangeStore {
  /**
   * Tells, soon after each commit of this process, what it changed; returns what stops it. Told of nothing while nobody
   * listens.
   */
  watch(listener: ChangeListener): () => void;
}

/** Is told what changed. Must not throw. */
export type ChangeListener = (changes: Changes) => void;

/**
 * What changed, each once. Of what it did itself a node is told the accounts alone: the rest it has in the answers to its
 * steps, and is told what other nodes did. In a store of one node that is nothing.
 */
export interface Changes {
  /** Accounts whose tasks or deliveries changed. */
  readonly accounts: readonly number[];
  /** Types that another node has queued a task of. */
  readonly types: readonly string[];
  /** Lanes that have an attempt due by what another node did. */
  readonly lanes: readonly LaneRef[];
  /** Tasks, by id, that ended at another node. */
  readonly ended: readonly string[];
}
