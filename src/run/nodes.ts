import type { DeliveryDispatcher } from "../deliver/delivery-dispatcher.ts";
import type { TaskProgress } from "../domain/task/run.ts";
import { Loop, type LoopDeps } from "../store/loop.ts";
import { type RetryDeps, keepTrying } from "../store/retry.ts";
import { type ReportedProgress, type Store, StoreError } from "../store/store.ts";

interface OtherNodesDeps extends RetryDeps, Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "cluster" | "findWaitingTypes" | "requeueTasks">;
  readonly types: readonly string[];
  /** There may be queued tasks of this type, or of any. */
  readonly queued: (type?: string) => void;
  readonly deliveries: Pick<DeliveryDispatcher, "lookForDue" | "lookAtAll" | "takeUp">;
  /** The store was out of reach for a while. */
  readonly outOfReach: () => void;
}

// Work that was committed in the order of its times may be seen out of order, by as long as a commit may take.
const OVERLAP_MS = 10_000;

/** A node without a reply of the store for this long may have missed heartbeats of workers. */
const GAP_MS = 5000;

/** Polls each second for work of other nodes; notifications only speed that up. Does nothing if the node is alone. */
export class OtherNodes {
  /** Looks for what the others left to this node. To be woken once a second. */
  readonly look: Loop;
  /** Takes up what ended nodes left. To be woken at each change of the nodes, and once a minute. */
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
      keepTrying(() => store.findWaitingTypes(types), this.#deps),
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
    const requeued = await keepTrying(() => store.requeueTasks(left), this.#deps);
    const interrupted = await deliveries.takeUp(left);
    if (requeued > 0 || interrupted > 0) {
      log.warn({ requeued, interrupted }, "took up the work of nodes that have ended");
    }
    await deliveries.lookAtAll();
    // Also tasks that were queued while this node was not a member.
    queued();
  }
}

interface ProgressBoardDeps extends Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "cluster" | "noteProgress" | "findProgress">;
  /** The number of the run of a task that this node runs itself, now; null for any other. */
  readonly runOf: (id: string) => number | null;
  /** The lease of a task that a worker holds, as far as it is known here; null for any other. */
  readonly leaseOf: (id: string) => string | null;
}

/**
 * The progress of running tasks, as it was reported here. In a cluster, progress is shared at most once a second, and
 * progress reported to other nodes is read from the store. A worker may report to several nodes in turn, so only the
 * progress of this node's own runs is kept for longer.
 */
export class ProgressBoard {
  /** By the task's id. */
  readonly known = new Map<string, TaskProgress>();
  /** Shares with the other nodes what is new. To be woken once a second. */
  readonly tell: Loop;
  readonly #deps: ProgressBoardDeps;
  readonly #told = new Map<string, TaskProgress>();

  constructor(deps: ProgressBoardDeps) {
    this.#deps = deps;
    this.tell = new Loop({ round: () => this.#tell(), failed: deps.failed });
  }

  /** The progress that was reported here; null when nothing was. */
  of(id: string): TaskProgress | null {
    return this.known.get(id) ?? null;
  }

  /** Returns a function with the progress of the given tasks, from all nodes. */
  async find(ids: readonly string[]): Promise<(id: string) => TaskProgress | null> {
    const { store } = this.#deps;
    const elsewhere = store.cluster.isShared ? ids.filter((id) => !this.#isOwn(id)) : [];
    if (elsewhere.length === 0) return (id) => this.of(id);
    const runs = await store.findProgress({ ids: elsewhere });
    const found = new Map(runs.map(({ id, progress }) => [id, progress]));
    // A report of this second is newer than what the store has.
    return (id) => this.known.get(id) ?? found.get(id) ?? null;
  }

  async #tell(): Promise<void> {
    const { store } = this.#deps;
    if (!store.cluster.isShared) return;
    if (!store.cluster.isMember()) {
      // By the time that this node has joined again, another lease may have taken the place of this one.
      for (const id of this.known.keys()) if (!this.#isOwn(id)) this.known.delete(id);
      return;
    }
    for (const id of this.#told.keys()) if (!this.known.has(id)) this.#told.delete(id);
    const news = [...this.known].filter(([id, progress]) => this.#told.get(id) !== progress);
    if (news.length === 0) return;
    try {
      await store.noteProgress(
        news.flatMap(([id, progress]) => {
          const by = this.#reporterOf(id);
          return by === null ? [] : { id, progress, by };
        }),
      );
    } catch (error) {
      // Not worth waiting for: the next second brings it, or something newer.
      if (error instanceof StoreError) return;
      throw error;
    }
    for (const [id, progress] of news) {
      if (this.#isOwn(id)) this.#told.set(id, progress);
      else if (this.known.get(id) === progress) this.known.delete(id);
    }
  }

  #isOwn(id: string): boolean {
    return this.#deps.runOf(id) !== null;
  }

  // Progress that is shared late must not be used for a later run.
  #reporterOf(id: string): ReportedProgress["by"] | null {
    const run = this.#deps.runOf(id);
    if (run !== null) return { run };
    const leaseId = this.#deps.leaseOf(id);
    return leaseId === null ? null : { leaseId };
  }
}
