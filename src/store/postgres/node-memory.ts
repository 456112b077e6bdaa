/** What a node remembers for its writer connections, in memory: whoever loses it loses turns, never truth. */
export class NodeMemory {
  /** The account of the last turn, by type. */
  readonly served = new Map<string, number>();
}
