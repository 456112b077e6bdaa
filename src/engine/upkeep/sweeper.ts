import { SESSION_AGE_MS } from "../../domain/account/session.ts";
import { readClocks } from "../../domain/clock/clock-reading.ts";
import type { SteadyClock } from "../../domain/clock/clock.ts";
import type { Logger } from "../../domain/log.ts";
import { StoreError, type Store } from "../../store/store.ts";
import { Loop, type LoopDeps } from "../loop.ts";
import { QueueExpirer, type QueueExpirerDeps } from "./queue-expirer.ts";

/** The part of the store that this sweeper uses. */
export type SweptStore = Pick<
  Store,
  "keepClockReading" | "eraseExpired" | "eraseStale" | "reclaimSpace"
>;

export interface SweeperDeps extends QueueExpirerDeps, Pick<LoopDeps, "failed"> {
  readonly store: SweptStore & QueueExpirerDeps["store"];
}

// Small batches, so that a request waits behind one of them for milliseconds at most.
const BATCH_MAX = 100;

/**
 * Ends tasks that were not started in time. Erases tasks whose retention is over, and kept answers, decided access
 * requests, ended redelivery orders, sessions, sign-in links and traffic, in small batches until nothing is left, and
 * then gives the space back. Before that it keeps what the clocks show: after a crash, retention continues from there.
 * A sweep that finds the store unable stops and leaves the rest to the next one.
 */
export class Sweeper {
  /** Sweeps when it is woken. A drain ends a sweep after its current batch. */
  readonly loop: Loop;
  readonly #store: SweptStore;
  readonly #clock: SteadyClock;
  readonly #log: Logger;
  readonly #retentionMs: number;
  readonly #queue: QueueExpirer;

  constructor(deps: SweeperDeps) {
    this.#store = deps.store;
    this.#clock = deps.clock;
    this.#log = deps.log;
    this.#retentionMs = deps.retentionMs;
    this.#queue = new QueueExpirer(deps);
    this.loop = new Loop({ round: () => this.#sweep(), failed: deps.failed });
  }

  /** Keeps what the clocks show. To be called at the end, when no sweep is going on. */
  close(): Promise<void> {
    return this.#unlessUnable(async () => {
      await this.#keepClock();
      await this.#queue.count();
    });
  }

  #sweep(): Promise<void> {
    return this.#unlessUnable(async () => {
      await this.#keepClock();
      await this.#queue.expire(() => this.loop.isDraining);
      const expired = await this.#untilNone(() =>
        this.#store.eraseExpired({ now: this.#clock.steady(), max: BATCH_MAX }),
      );
      const stale = await this.#untilNone(() => this.#store.eraseStale(this.#stale()));
      if (expired + stale === 0) return;
      while (!this.loop.isDraining && (await this.#store.reclaimSpace()) === "more") continue;
      if (expired > 0) {
        this.#log.info(
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
      this.#log.warn({ kind: error.kind }, `the retention sweep stopped: ${error.message}`);
    }
  }

  #keepClock(): Promise<void> {
    return this.#store.keepClockReading(readClocks(this.#clock));
  }

  // Records have times of the wall clock, and either clock may be far from the truth: records go when they are too old
  // by both clocks, or lie too far ahead of both.
  #stale(): Parameters<SweptStore["eraseStale"]>[0] {
    const now = this.#clock.now();
    const steady = this.#clock.steady();
    const recordsBefore = Math.min(now, steady) - this.#retentionMs;
    return {
      answersBefore: steady,
      decidedBefore: recordsBefore,
      sessionsBefore: steady - SESSION_AGE_MS,
      linksBefore: now,
      trafficBefore: recordsBefore,
      recordsAfter: Math.max(now, steady) + this.#retentionMs,
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
