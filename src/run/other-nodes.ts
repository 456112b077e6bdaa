import { Loop, type LoopDeps } from "../deliver/loop.ts";
import { persist, type PersistDeps } from "../deliver/persist.ts";
import type { Clock } from "../domain/clock/clock.ts";
import type { LeftWork, Store } from "../store/store.ts";

interface OtherNodesDeps extends PersistDeps, Pick<LoopDeps, "failed"> {
  readonly clock: Clock;
  readonly store: Pick<Store, "cluster" | "findWaitingTypes" | "requeueTasks">;
  /** All types of tasks. */
  readonly types: readonly string[];
  /** There may be queued tasks of this type, or of any. */
  readonly queued: (type?: string) => void;
  readonly deliveries: {
    /** Learns what became due in this time. */
    lookForDue(interval: { readonly since: number; readonly until: number }): Promise<void>;
    /** Learns what is scheduled anywhere. */
    lookAtAll(): Promise<void>;
    /** Records what was left in flight as interrupted, to be sent again. */
    takeUp(left: LeftWork): Promise<number>;
  };
  /** The store was out of reach for a while. */
  readonly outOfReach: () => void;
}

// Work that was committed in the order of its times may be seen out of order, by as long as a commit may take.
const OVERLAP_MS = 10_000;

/** A node that has not heard from the store for this long does not know what workers tried to tell meanwhile. */
const GAP_MS = 5000;

/**
 * The care of a node for the others: it looks each second for what they queued and for attempts that became due, and
 * takes up what ended ones left. Hints may bring the same sooner; this is what nothing is missed by. In a store of one
 * node it does nothing.
 */
export class OtherNodes {
  /** Looks for what the others left to this node. To be woken once a second. */
  readonly look: Loop;
  /**
   * Takes up what ended nodes left, and learns what is scheduled at hosts of which this node may have a share now. To be
   * woken at each change of the nodes, and once a minute.
   */
  readonly change: Loop;
  readonly #deps: OtherNodesDeps;
  /** Up to when it has looked for what became due. */
  #lookedUntil: number;
  /** When the store answered last, monotonic. */
  #heardAt: number;

  constructor(deps: OtherNodesDeps) {
    this.#deps = deps;
    this.#lookedUntil = deps.clock.now();
    this.#heardAt = deps.clock.monotonic();
    const { failed } = deps;
    this.look = new Loop({ round: () => this.#look(), failed });
    this.change = new Loop({ round: () => this.#change(), failed });
  }

  /** False after the store has been out of reach for some seconds, until it has answered again. */
  get isInReach(): boolean {
    const { store, clock } = this.#deps;
    return !store.cluster.isShared || clock.monotonic() - this.#heardAt < GAP_MS;
  }

  async #look(): Promise<void> {
    const { store, types, queued, deliveries, clock } = this.#deps;
    if (!store.cluster.isShared || !store.cluster.isMember()) return;
    const until = clock.now();
    const since = Math.min(this.#lookedUntil, until) - OVERLAP_MS;
    const [waiting] = await Promise.all([
      persist(() => store.findWaitingTypes(types), this.#deps),
      deliveries.lookForDue({ since, until }),
    ]);
    this.#heard();
    for (const type of waiting) queued(type);
    this.#lookedUntil = until;
  }

  #heard(): void {
    const { isInReach } = this;
    this.#heardAt = this.#deps.clock.monotonic();
    if (!isInReach) this.#deps.outOfReach();
  }

  async #change(): Promise<void> {
    const { store, queued, deliveries, log } = this.#deps;
    const { cluster } = store;
    if (!cluster.isShared || !cluster.isMember()) return;
    const left = { of: "ended nodes" } as const;
    const requeued = await persist(() => store.requeueTasks(left), this.#deps);
    const interrupted = await deliveries.takeUp(left);
    if (requeued > 0 || interrupted > 0) {
      log.warn({ requeued, interrupted }, "took up the work of nodes that have ended");
    }
    await deliveries.lookAtAll();
    // Also what was queued while this node was no member.
    queued();
  }
}
