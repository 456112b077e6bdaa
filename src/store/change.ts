import type { LaneRef } from "./delivery.ts";

/** Reports changes to listeners. */
export interface ChangeStore {
  /**
   * Tells the listener, soon after each commit of this process, what the commit changed. Returns a function that stops
   * it. Nothing is gathered while nobody listens. What other nodes did is told when it is heard of: it may come late,
   * twice or never, so whoever must not miss it also asks the store, once a second.
   */
  watch(listener: ChangeListener): () => void;
}

/** Receives what changed. Must not throw. */
export type ChangeListener = (changes: Changes) => void;

/**
 * Everything that changed, each item once. Of its own changes a node is told only the accounts, because the answers to
 * its steps carry the rest; the other fields tell what other nodes did. In a store of one node those are empty.
 */
export interface Changes {
  /** Accounts whose tasks or deliveries changed. */
  readonly accounts: readonly number[];
  /** Types that another node has queued a task of. */
  readonly types: readonly string[];
  /** Lanes that have an attempt due because of what another node did. */
  readonly lanes: readonly LaneRef[];
  /** Tasks, by id, that ended, were cancelled or were erased at another node. */
  readonly ended: readonly string[];
}
