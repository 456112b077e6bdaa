import type { Clock, Timer } from "../domain/clock.ts";
import type { Logger } from "../domain/log.ts";
import { StoreError, type Store } from "../store/store.ts";

export interface KeyUsageDeps {
  readonly store: Pick<Store, "touchKeys">;
  readonly clock: Clock;
  readonly log: Logger;
}

const WRITE_EVERY_MS = 60_000;

/**
 * When keys were last used, gathered here and written once a minute: a write per request would cost more
 * than the request. A crash loses at most that minute.
 */
export class KeyUsage {
  readonly #deps: KeyUsageDeps;
  readonly #unwritten = new Map<string, number>();
  #timer: Timer | null = null;

  constructor(deps: KeyUsageDeps) {
    this.#deps = deps;
  }

  /** Notes that the key opened a request. The last use never goes back, though the clock may be set back. */
  note(keyId: string, usedAt: number): void {
    this.#unwritten.set(keyId, Math.max(usedAt, this.#unwritten.get(keyId) ?? 0));
    this.#writeLater();
  }

  /** The later of what is stored and what was noted since; null when it was never used. */
  lastUsedAt(keyId: string, stored: number | null): number | null {
    const noted = this.#unwritten.get(keyId);
    return noted === undefined ? stored : Math.max(noted, stored ?? 0);
  }

  /** Writes what was noted; what cannot be written is kept for the next time. */
  async write(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    const uses = [...this.#unwritten].map(([keyId, usedAt]) => ({ keyId, usedAt }));
    if (uses.length === 0) return;
    try {
      await this.#deps.store.touchKeys(uses);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#deps.log.warn({ kind: error.kind }, "the last use of keys was not written");
      return;
    }
    // Until here they were shown from memory; what was noted meanwhile stays for the next time.
    for (const { keyId, usedAt } of uses) {
      if (this.#unwritten.get(keyId) === usedAt) this.#unwritten.delete(keyId);
    }
  }

  #writeLater(): void {
    this.#timer ??= this.#deps.clock.setTimer(WRITE_EVERY_MS, () => void this.#writeInTurn());
  }

  async #writeInTurn(): Promise<void> {
    try {
      await this.write();
      // What could not be written must not wait for a key to be used again.
      if (this.#unwritten.size > 0) this.#writeLater();
    } catch (error) {
      this.#deps.log.error({ err: error }, "the last use of keys cannot be written");
    }
  }
}
