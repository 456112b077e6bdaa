/** What the store takes and gives about the nodes that share it; re-exported by store.ts. */

/**
 * Work that nobody does any more: what this node itself had under way when its process ended, or what other nodes had
 * that have ended. A store of one node knows no others.
 */
export interface LeftWork {
  readonly of: "earlier life" | "ended nodes";
}
