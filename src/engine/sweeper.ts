import type { Clock } from "../domain/clock.ts";
import type { Logger } from "../domain/log.ts";
import { IDEMPOTENCY_MS } from "../domain/retention.ts";
import { SESSION_AGE_MS } from "../domain/session.ts";
import { StoreError, type Store } from "../store/store.ts";

/** What of the store this sweeper uses. */
export type SweptStore = Pick<Store, "eraseExpired" | "eraseStale" | "reclaimSpace">;

export interface SweeperDeps {
  readonly store: SweptStore;
  readonly clock: Clock;
  readonly log: Logger;
  readonly retentionMs: number;
  /** What a sweep ended by that no later one can mend. */
  readonly failed: (error: unknown) => void;
}

// Small batches, so that a request waits behind one of them for milliseconds at most.
const BATCH_MAX = 100;

/**
 * Erases tasks whose retention is over, and with them kept answers, decided access requests, ended redelivery
 * orders, sessions, sign-in links and traffic, in small batches until nothing is left, and then gives the space back. One sweep at a time; a sweep that finds
 * the store unable stops and leaves the rest to the next tick.
 */
export class Sweeper {
  readonly #store: SweptStore;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #retentionMs: number;
  readonly #failed: (error: unknown) => void;
  #sweep: Promise<void> | null = null;
  #stopping = false;

  constructor(deps: SweeperDeps) {
    this.#store = deps.store;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#retentionMs = deps.retentionMs;
    this.#failed = deps.failed;
  }

  /** Begins a sweep unless one is going on. */
  sweep(): void {
    if (this.#sweep !== null || this.#stopping) return;
    this.#sweep = this.#run()
      .catch(this.#failed)
      .finally(() => {
        this.#sweep = null;
      });
  }

  /** Settles when no sweep is going on. */
  async quiet(): Promise<void> {
    await this.#sweep;
  }

  /** Ends a sweep after the batch it is at; none begins after this. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.quiet();
  }

  async #run(): Promise<void> {
    try {
      const erased = await this.#untilNone((now) =>
        this.#store.eraseExpired({ now, max: BATCH_MAX }),
      );
      const stale = await this.#untilNone((now) => this.#store.eraseStale(this.#staleAt(now)));
      if (erased + stale === 0) return;
      while (!this.#stopping && (await this.#store.reclaimSpace()) === "more") continue;
      if (erased > 0) this.#log.info({ erased }, "expired tasks were erased");
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#log.warn({ kind: error.kind }, `the retention sweep stopped: ${error.message}`);
    }
  }

  #staleAt(now: number): Parameters<SweptStore["eraseStale"]>[0] {
    const retained = now - this.#retentionMs;
    return {
      answersBefore: now - IDEMPOTENCY_MS,
      decidedBefore: retained,
      sessionsBefore: now - SESSION_AGE_MS,
      linksBefore: now,
      trafficBefore: retained,
      max: BATCH_MAX,
    };
  }

  async #untilNone(erase: (now: number) => Promise<number>): Promise<number> {
    let total = 0;
    while (!this.#stopping) {
      const erased = await erase(this.#clock.now());
      total += erased;
      if (erased === 0) break;
    }
    return total;
  }
}
