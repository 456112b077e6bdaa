import type { LaneRef, LeaseEnd, LeaseEndResult, LeaseEnds, Store } from "../../store/store.ts";
import type { HealthRecord } from "../health-record.ts";
import type { ProgressBoard } from "../run/progress-board.ts";
import type { HeldLeases } from "./held-leases.ts";

export interface LeaseEnderDeps {
  readonly store: Pick<Store, "endLeases">;
  readonly clock: { monotonic(): number };
  readonly held: HeldLeases;
  readonly progress: ProgressBoard;
  readonly health: Pick<HealthRecord, "noteRun">;
  /** A task has ended, and that is on disk. */
  readonly taskEnded: (id: string) => void;
  /** Lanes that have an attempt due since a task finished. */
  readonly deliveriesDue: (lanes: readonly LaneRef[]) => void;
  /** A task of this type is queued again, or of any. */
  readonly wake: (type?: string) => void;
  /** A lease of this type is held no more. */
  readonly freed: (type: string) => void;
}

/** Ends leases in the store, and tells everybody whom it concerns. */
export class LeaseEnder {
  readonly #deps: LeaseEnderDeps;

  constructor(deps: LeaseEnderDeps) {
    this.#deps = deps;
  }

  /** As {@link Store.endLeases}; what it ended has taken effect everywhere when this settles. */
  async end(ends: LeaseEnds): Promise<readonly LeaseEndResult[]> {
    const results = await this.#deps.store.endLeases(ends);
    const news = ends.ends.filter((_, i) => results[i]?.isNew === true);
    const lanes = results.flatMap((result) => (result.isNew ? result.lanes : []));
    for (const end of news) this.tell(end);
    if (lanes.length > 0) this.#deps.deliveriesDue(lanes);
    return results;
  }

  /** Tells everybody of a lease that has ended in the store. */
  tell(end: LeaseEnd): void {
    const { clock, held, progress, health, taskEnded, wake, freed } = this.#deps;
    const type = end.how === "expired" ? held.lapse(end) : held.free(end);
    progress.forget(end.id);
    if (end.how !== "released") health.noteRun(end.how === "completed", clock.monotonic());
    if (end.sequel.kind === "finish") taskEnded(end.id);
    // The type of a lease that had run out before is not known here.
    if (end.sequel.kind === "requeue") wake(type ?? undefined);
    else if (type !== null) freed(type);
  }
}
