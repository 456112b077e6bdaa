/** The memory of a node, for its writer connections: whoever loses it loses turns, never truth. */
export class NodeMemory {
  /** The account of the last turn, by type. */
  readonly served = new Map<string, number>();
  /** The types of leases that the database knows. */
  readonly leaseTypes = new Set<string>();
  /** Those of which, when they were counted last, far fewer leases were held than may be. */
  readonly farTypes = new Set<string>();
}
