import { isRejected } from "../deliver/persist.ts";
import type { ObservedRun } from "../domain/observer.ts";
import type { LeaseEnd, LeaseEndResult, LeaseEnds, Store } from "../store/store.ts";
import type { HeldLease, HeldLeases } from "./held-leases.ts";
import { runMoment, toUnstoredEnd, type RunDeps } from "./run-end.ts";

export interface LeaseEnderDeps extends RunDeps {
  readonly store: Pick<Store, "endLeases">;
  readonly held: HeldLeases;
  /** A task of this type, or of any, is queued again. */
  readonly wake: (type?: string) => void;
  /** A lease of this type is no longer held. */
  readonly freed: (type: string) => void;
}

/** Ends leases in the store, and tells everybody concerned. */
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
    for (const end of news) this.tell(end);
    if (lanes.length > 0) this.#deps.deliveriesDue(lanes);
    return results;
  }

  /** Tells everybody concerned of a lease that has ended in the store. */
  tell(end: LeaseEnd): void {
    const { held, progress, taskEnded, wake, freed } = this.#deps;
    const lease = end.how === "expired" ? held.lapse(end) : held.free(end);
    const type = lease?.type ?? null;
    progress.delete(end.id);
    this.#deps.log.debug({ task: end.id, how: end.how, next: end.sequel.kind }, "a lease ended");
    if (end.how !== "released") this.#tellOfRun(end.how, lease);
    if (end.sequel.kind === "finish") {
      taskEnded(end.id);
      this.#deps.observer?.end?.({ type, state: end.sequel.state });
    }
    // The type of a lease that had run out before is not known here.
    if (end.sequel.kind === "requeue") wake(type ?? undefined);
    else if (type !== null) freed(type);
    // Another node gave the lease out: whichever type it was of has a place more.
    else if (this.#deps.cluster.isShared) wake();
  }

  #tellOfRun(outcome: ObservedRun["outcome"], lease: HeldLease | null): void {
    const { clock, health, observer } = this.#deps;
    const now = clock.monotonic();
    health.noteRun(outcome === "completed", now);
    const since = lease?.since ?? null;
    const ms = since === null ? null : now - since;
    observer?.run?.({ type: lease?.type ?? null, outcome, ms });
  }
}
