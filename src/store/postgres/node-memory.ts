import { LaneFloors } from "./lane-floors.ts";
import { QueueFloors } from "./queue-floors.ts";

/** The memory of a node, for its writer connections: whoever loses it loses turns and time, never truth. */
export class NodeMemory {
  /** The account of the last turn, by type. */
  readonly served = new Map<string, number>();
  /** The types of leases that the database knows. */
  readonly leaseTypes = new Set<string>();
  /** Those of which, when they were counted last, far fewer leases were held than may be. */
  readonly farTypes = new Set<string>();
  readonly queueFloors: QueueFloors;
  readonly laneFloors = new LaneFloors();

  /** `now` is the clock of the node's database. */
  constructor(now: () => number) {
    this.queueFloors = new QueueFloors(now);
  }

  /** A claim was undone: others may have passed over what it held. */
  forgetFloors(): void {
    this.queueFloors.forget();
    this.laneFloors.forget();
  }
}
