import type { Clock } from "../domain/clock/clock.ts";

/** Also a store that one node has for itself has a cluster: nothing above it asks how many nodes there are. */
export interface ClusterStore {
  readonly cluster: Cluster;
}

/** The nodes that share a store, as one of them sees them. */
export interface Cluster {
  /** The id of this node: a new one at each start. */
  readonly self: string;
  /** All nodes that are alive, including this one. */
  membership(): readonly string[];
  /** Calls back after the members or the duties of this node have changed. Returns a function that stops it. */
  onChange(listener: () => void): () => void;
  /**
   * True while this duty is this node's. It only saves work: for a moment two nodes may hold the same duty, or none, so
   * doing it twice must have the same result as doing it once.
   */
  holds(duty: Duty): boolean;
  /** The clock that every node goes by. */
  readonly clock: Clock;
}

/** Work that one node does for all of them. */
export type Duty = "release" | "reap" | "orders" | "sweep" | "sample" | "fold" | "clock";

/**
 * Work that was left behind: by this node's earlier process, which ended while it was under way, or by other nodes that
 * have ended. A store of one node knows no others.
 */
export interface LeftWork {
  readonly of: "earlier life" | "ended nodes";
}
