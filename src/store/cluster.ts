import type { Clock } from "../domain/clock/clock.ts";

/** What the store takes and gives about the nodes that share it; re-exported by store.ts. */

/** A store that one node has for itself says so: nothing above it asks how many there are. */
export interface ClusterStore {
  readonly cluster: Cluster;
}

/** The nodes that share a store, as one of them sees them. */
export interface Cluster {
  /** This node: a new id at each start. */
  readonly self: string;
  /** All nodes that live, this one among them. */
  membership(): readonly string[];
  /** Calls back after the members or the duties of this node have changed; returns what stops it. */
  onChange(listener: () => void): () => void;
  /**
   * True while it is for this node to do this. It saves work and no more: for a moment two may hold the same duty, or
   * nobody, so that what is done twice must come to the same.
   */
  holds(duty: Duty): boolean;
  /** The time that every node goes by. */
  readonly clock: Clock;
}

/** What one node does for all of them. */
export type Duty = "release" | "reap" | "orders" | "sweep" | "sample" | "fold" | "clock";

/**
 * Work that nobody does any more: what this node itself had under way when its process ended, or what other nodes had
 * that have ended. A store of one node knows no others.
 */
export interface LeftWork {
  readonly of: "earlier life" | "ended nodes";
}
