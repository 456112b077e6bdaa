import { Loop, type LoopDeps } from "../deliver/loop.ts";
import { PENDING_REQUEST_MS, SESSION_AGE_MS } from "../domain/account/account.ts";
import { AUDIT_KEPT_MS } from "../domain/audit/audit-entry.ts";
import { readClocks } from "../domain/clock/service-clock.ts";
import { StoreError, type Cluster, type StaleBefore, type Store } from "../store/store.ts";
import { QueueExpirer, type QueueExpirerDeps } from "./queue-expirer.ts";

interface SweeperDeps extends QueueExpirerDeps, Pick<LoopDeps, "failed"> {
  readonly store: QueueExpirerDeps["store"] &
    Pick<Store, "keepClockReading" | "eraseExpired" | "eraseStale" | "reclaimSpace">;
  readonly cluster: Pick<Cluster, "holds">;
}

// Small batches, so that a request waits behind one of them for milliseconds at most.
const BATCH_MAX = 100;

/**
 * Ends tasks that were not started in time. Erases tasks whose retention is over, and
 * what {@link StaleBefore} names, in small batches until nothing is left. Then it gives the space back. Before that it keeps what the clocks show: after a crash, retention continues from there.
 * A sweep that finds the store unable stops and leaves the rest to the next one. Where another node has this role,
 * nothing of it is done here.
 */
export class Sweeper {
  /** Sweeps when it is woken. A drain ends a sweep after its current batch. */
  readonly loop: Loop;
  readonly #deps: SweeperDeps;
  readonly #queue: QueueExpirer;

  constructor(deps: SweeperDeps) {
    this.#deps = deps;
    this.#queue = new QueueExpirer(deps);
    this.loop = new Loop({ round: () => this.#sweep(), failed: deps.failed });
  }

  /** Keeps what the clocks show. To be called at the end, when no sweep is going on. */
  close(): Promise<void> {
    return this.#unlessUnable(async () => {
      if (!this.#deps.cluster.holds("sweep")) return;
      await this.#keepClock();
      await this.#queue.count();
    });
  }

  async #sweep(): Promise<void> {
    const { store, clock, log, cluster } = this.#deps;
    // The time until it comes back to this node is counted by the one that has it.
    if (!cluster.holds("sweep")) return this.#queue.skip();
    return this.#unlessUnable(async () => {
      await this.#keepClock();
      await this.#queue.expire(() => this.loop.isDraining);
      const expired = await this.#untilNone(async () => {
        const { looked } = await store.eraseExpired({ now: clock.steady(), max: BATCH_MAX });
        return looked;
      });
      const stale = await this.#untilNone(() => store.eraseStale(this.#stale()));
      if (expired + stale === 0) return;
      while (!this.loop.isDraining && (await store.reclaimSpace()) === "more") continue;
      if (expired > 0) {
        log.info(
          { expired },
          "expired tasks were erased, except those whose webhooks are still to be sent",
        );
      }
    });
  }

  async #unlessUnable(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#deps.log.warn({ kind: error.kind }, `the retention sweep stopped: ${error.message}`);
    }
  }

  #keepClock(): Promise<void> {
    return this.#deps.store.keepClockReading(readClocks(this.#deps.clock));
  }

  // Records have times of the wall clock, and either clock may be far from the truth: records go when they are too old
  // by both clocks, or lie too far ahead of both.
  #stale(): StaleBefore & { readonly max: number } {
    const { clock, retentionMs } = this.#deps;
    const now = clock.now();
    const steady = clock.steady();
    const recordsBefore = Math.min(now, steady) - retentionMs;
    return {
      answersBefore: steady,
      decidedBefore: recordsBefore,
      pendingBefore: Math.min(now, steady) - PENDING_REQUEST_MS,
      sessionsBefore: steady - SESSION_AGE_MS,
      linksBefore: now,
      auditBefore: Math.min(now, steady) - AUDIT_KEPT_MS,
      trafficBefore: recordsBefore,
      recordsAfter: Math.max(now, steady) + retentionMs,
      max: BATCH_MAX,
    };
  }

  async #untilNone(erase: () => Promise<number>): Promise<number> {
    let total = 0;
    while (!this.loop.isDraining) {
      const erased = await erase();
      total += erased;
      if (erased === 0) break;
    }
    return total;
  }
}
