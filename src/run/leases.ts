import type { LeaseRef } from "../domain/lease/lease.ts";
import type { ObservedRun } from "../domain/observer.ts";
import { isRejected } from "../store/retry.ts";
import type { LeaseEnd, LeaseEndResult, LeaseEnds, Store } from "../store/store.ts";
import { type RunDeps, runMoment, toUnstoredEnd } from "./run-end.ts";

interface HeldLease extends LeaseRef {
  readonly type: string;
  /** When it was claimed, monotonic; null if not observed or not known. */
  readonly since?: number | null;
}

/** Collects the leases that end while a step of the store is in progress. */
export interface EndWatch {
  /** True if this lease ended, or its task was cancelled, since the watch began. */
  saw(lease: LeaseRef): boolean;
  close(): void;
}

/**
 * The leases that workers hold, and their number by type. The results of a step that adds a lease and of one that ends
 * it may arrive in either order. So each step that adds leases watches which end meanwhile, or they would be held forever.
 */
export class HeldLeases {
  readonly #byTask = new Map<string, HeldLease>();
  readonly #counts = new Map<string, number>();
  readonly #watches = new Set<Set<string>>();
  readonly #max: number;

  /**
   * Holds at most `max` leases: in a cluster the oldest leases have mostly ended. A heartbeat adds an active lease again
   * that was dropped.
   */
  constructor(max = Infinity) {
    this.#max = max;
  }

  /** To be called before the step of the store begins. */
  watch(): EndWatch {
    const ended = new Set<string>();
    this.#watches.add(ended);
    return {
      // An id of a task never looks like an id of a lease.
      saw: ({ id, leaseId }) => ended.has(id) || ended.has(leaseId),
      close: () => this.#watches.delete(ended),
    };
  }

  hold({ id, leaseId, type, since = null }: HeldLease): void {
    this.#remove(id);
    this.#byTask.set(id, { id, leaseId, type, since });
    this.#counts.set(type, this.countOf(type) + 1);
    const [oldest] = this.#byTask.size > this.#max ? this.#byTask.keys() : [];
    if (oldest !== undefined) this.#remove(oldest);
  }

  leaseOf(id: string): string | null {
    return this.#byTask.get(id)?.leaseId ?? null;
  }

  isHeld({ id, leaseId }: LeaseRef): boolean {
    return this.#byTask.get(id)?.leaseId === leaseId;
  }

  /** Notes that a lease has ended. Returns it; null if it was not held, such as one that expired before. */
  free(lease: LeaseRef): HeldLease | null {
    for (const ended of this.#watches) ended.add(lease.leaseId);
    return this.lapse(lease);
  }

  /** Notes that a lease has expired. A heartbeat may revive it, so no watch sees it. Returns as {@link free}. */
  lapse(lease: LeaseRef): HeldLease | null {
    return this.isHeld(lease) ? this.#remove(lease.id) : null;
  }

  /** Notes that a task was cancelled. Returns the type of its lease; null if it had none. */
  cancel(id: string): string | null {
    for (const ended of this.#watches) ended.add(id);
    return this.#remove(id)?.type ?? null;
  }

  countOf(type: string): number {
    return this.#counts.get(type) ?? 0;
  }

  #remove(id: string): HeldLease | null {
    const held = this.#byTask.get(id);
    if (held === undefined) return null;
    this.#byTask.delete(id);
    this.#counts.set(held.type, this.countOf(held.type) - 1);
    return held;
  }
}

export interface LeaseEnderDeps extends RunDeps {
  readonly store: Pick<Store, "endLeases">;
  readonly held: HeldLeases;
  /** A task of this type, or of any, is queued again. */
  readonly wake: (type?: string) => void;
  /** A lease of this type is no longer held. */
  readonly freed: (type: string) => void;
}

export class LeaseEnder {
  readonly #deps: LeaseEnderDeps;

  constructor(deps: LeaseEnderDeps) {
    this.#deps = deps;
  }

  /** As {@link Store.endLeases}; when this settles, the ends have taken effect everywhere. */
  async end(ends: LeaseEnds): Promise<readonly LeaseEndResult[]> {
    try {
      return await this.#end(ends);
    } catch (err) {
      const [end, ...others] = ends.ends;
      if (!isRejected(err) || end === undefined) throw err;
      if (others.length === 0 && end.sequel.kind !== "finish") throw err;
      if (others.length === 0) return this.#endUnstored(ends, err);
    }
    // One of them is at fault.
    const results: LeaseEndResult[] = [];
    for (const end of ends.ends) results.push(...(await this.end({ ...ends, ends: [end] })));
    return results;
  }

  async #endUnstored(ends: LeaseEnds, err: unknown): Promise<readonly LeaseEndResult[]> {
    const { clock, retentionMs, log } = this.#deps;
    const ids = ends.ends.map(({ id }) => id);
    log.error({ err, tasks: ids }, "a result of a worker could not be stored; its task fails");
    const moment = { ...runMoment(clock, retentionMs), endedAt: ends.now };
    const sequel = { kind: "finish", ...toUnstoredEnd(moment) } as const;
    return this.#end({
      ...ends,
      ends: ends.ends.map(({ id, leaseId }) => ({ id, leaseId, how: "failed", sequel })),
    });
  }

  async #end(ends: LeaseEnds): Promise<readonly LeaseEndResult[]> {
    const results = await this.#deps.store.endLeases(ends);
    const news = ends.ends.filter((_, i) => results[i]?.isNew === true);
    const lanes = results.flatMap((result) => (result.isNew ? result.lanes : []));
    for (const end of news) this.noteEnd(end);
    if (lanes.length > 0) this.#deps.deliveriesDue(lanes);
    return results;
  }

  /** Notifies the other parts of a lease that has ended in the store. */
  noteEnd(end: LeaseEnd): void {
    const { held, progress, taskEnded, wake, freed } = this.#deps;
    const lease = end.how === "expired" ? held.lapse(end) : held.free(end);
    const type = lease?.type ?? null;
    progress.delete(end.id);
    this.#deps.log.debug({ task: end.id, how: end.how, next: end.sequel.kind }, "a lease ended");
    if (end.how !== "released") this.#noteRun(end.how, lease);
    if (end.sequel.kind === "finish") {
      taskEnded(end.id);
      this.#deps.observer?.end?.({ type, state: end.sequel.state });
    }
    // The type of a lease that had expired before is not known here.
    if (end.sequel.kind === "requeue") wake(type ?? undefined);
    else if (type !== null) freed(type);
    // Another node gave the lease out, so its type, which has a free slot now, is not known here.
    else if (this.#deps.cluster.isShared) wake();
  }

  #noteRun(outcome: ObservedRun["outcome"], lease: HeldLease | null): void {
    const { clock, health, observer } = this.#deps;
    const now = clock.monotonic();
    health.noteRun(outcome === "completed", now);
    const since = lease?.since ?? null;
    const ms = since === null ? null : now - since;
    observer?.run?.({ type: lease?.type ?? null, outcome, ms });
  }
}
