import type { Clock, Timer } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import { databaseWarnings, type DatabaseWarning } from "../domain/stats/health.ts";
import { StoreError, type Store } from "../store/store.ts";

export interface ServerWatchDeps {
  readonly store: Pick<Store, "cluster" | "findDatabaseHealth">;
  readonly clock: Clock;
  readonly log: Logger;
}

// Posts are refused from 5 s on after the only standby that commits wait for has gone: who asks then is told why.
const LOOK_MS = 5000;
const TOLD_EVERY_MS = 3_600_000;

/**
 * Watches the server of the database while it is served. Every node looks every few seconds, because each is asked how it is;
 * what is wrong is logged by the one that sweeps, once an hour while it lasts.
 */
export class ServerWatch {
  readonly #deps: ServerWatchDeps;
  /** When each was logged last, by the monotonic clock. */
  readonly #toldAt = new Map<string, number>();
  #warnings: readonly DatabaseWarning[] = [];
  #timer: Timer | null = null;

  constructor(deps: ServerWatchDeps) {
    this.#deps = deps;
  }

  /** Looks at once, and then again and again until {@link close}. */
  start(): void {
    // A look is answered or given up within seconds.
    this.#timer = this.#deps.clock.setTimer(LOOK_MS, () => this.start());
    void this.#look();
  }

  /** The findings of the last look. */
  warnings(): readonly string[] {
    return this.#warnings.map(({ text }) => text);
  }

  /** Stops watching. Safe to call twice. */
  close(): void {
    this.#timer?.cancel();
  }

  async #look(): Promise<void> {
    const { store, log } = this.#deps;
    try {
      const health = await store.findDatabaseHealth();
      this.#warnings = health === null ? [] : databaseWarnings(health);
      if (store.cluster.holds("sweep")) this.#tell();
    } catch (error) {
      // The last findings may be long over. A server that cannot be reached is reported by whoever needs it.
      this.#warnings = [];
      if (!(error instanceof StoreError)) {
        log.warn({ err: error }, "the health of the database could not be read");
      }
    }
  }

  #tell(): void {
    const { clock, log } = this.#deps;
    const now = clock.monotonic();
    for (const { text, facts } of this.#warnings) {
      if (now - (this.#toldAt.get(text) ?? Number.NEGATIVE_INFINITY) < TOLD_EVERY_MS) continue;
      this.#toldAt.set(text, now);
      log.warn(facts, text);
    }
  }
}
