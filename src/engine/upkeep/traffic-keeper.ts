import type { Clock } from "../../domain/clock/clock.ts";
import type { Logger } from "../../domain/log.ts";
import { StoreError, type Store } from "../../store/store.ts";

export interface TrafficKeeperDeps {
  readonly store: Pick<Store, "sampleQueues" | "foldTraffic">;
  readonly clock: Clock;
  readonly log: Logger;
  /** What a round ended by that no later one can mend. */
  readonly failed: (error: unknown) => void;
}

const HOUR_MS = 3_600_000;
// A day by the minute, and an hour for whoever looks at the end of it.
const MINUTES_KEPT_MS = 25 * HOUR_MS;

/**
 * Notes at each tick how much waits, and folds old minutes of traffic into hours, a whole hour at once. One round at a
 * time; a round that finds the store unable leaves the rest to the next tick.
 */
export class TrafficKeeper {
  readonly #deps: TrafficKeeperDeps;
  #round: Promise<void> | null = null;
  #stopping = false;

  constructor(deps: TrafficKeeperDeps) {
    this.#deps = deps;
  }

  /** Begins a round unless one is going on. */
  tick(): void {
    if (this.#round !== null || this.#stopping) return;
    this.#round = this.#run()
      .catch(this.#deps.failed)
      .finally(() => {
        this.#round = null;
      });
  }

  /** Settles when no round is going on. */
  async quiet(): Promise<void> {
    await this.#round;
  }

  /** Ends a round after the step it is at; none begins after this. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.quiet();
  }

  async #run(): Promise<void> {
    const { store, clock, log } = this.#deps;
    try {
      const now = clock.now();
      await store.sampleQueues({ now });
      const before = now - MINUTES_KEPT_MS;
      const minutesBefore = before - (before % HOUR_MS);
      while (!this.#stopping && (await store.foldTraffic({ minutesBefore })) === "more") continue;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      log.warn({ kind: error.kind }, `traffic was not added up: ${error.message}`);
    }
  }
}
