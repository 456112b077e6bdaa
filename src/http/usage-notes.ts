import type { Clock, Timer } from "../domain/clock/clock.ts";
import { MINUTE_MS } from "../domain/clock/duration.ts";
import type { Logger } from "../domain/log.ts";
import { StoreError, type Store } from "../store/store.ts";

export interface UsageNotesDeps<Id> {
  /** The plural noun of the users, for the log. */
  readonly whose: string;
  /** Writes the last use of each; rejects with a StoreError when it cannot. */
  readonly write: (uses: readonly (readonly [id: Id, usedAt: number])[]) => Promise<void>;
  readonly writeEveryMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The later of the stored and the noted use; null if never used. */
export type LastUses<Id> = (id: Id, stored: number | null) => number | null;

/**
 * When keys, sessions or workers were last used, gathered here and written now and then: a write per request would cost
 * more than the request. A crash loses at most the latest notes.
 */
export class UsageNotes<Id> {
  readonly #deps: UsageNotesDeps<Id>;
  readonly #unwritten = new Map<Id, number>();
  #timer: Timer | null = null;
  /** True when the last write failed: that is logged once. */
  #isHeldUp = false;

  constructor(deps: UsageNotesDeps<Id>) {
    this.#deps = deps;
  }

  /** Notes that it opened a request. The last use never goes back, though the clock may be set back. */
  note(id: Id, usedAt: number): void {
    this.#unwritten.set(id, Math.max(usedAt, this.#unwritten.get(id) ?? 0));
    this.#writeLater();
  }

  /**
   * The notes of this moment, to be combined with the store's answer. They must be taken before the store is asked: a
   * use that is written while the store answers would otherwise be in neither, since a note goes once it is written.
   */
  lastUses(): LastUses<Id> {
    const noted = new Map(this.#unwritten);
    return (id, stored) => {
      const usedAt = noted.get(id);
      return usedAt === undefined ? stored : Math.max(usedAt, stored ?? 0);
    };
  }

  /** Writes the notes; those that cannot be written are kept for the next time. */
  async write(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    const { whose, log } = this.#deps;
    const uses = [...this.#unwritten];
    if (uses.length === 0) return;
    try {
      await this.#deps.write(uses);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (!this.#isHeldUp)
        log.warn({ kind: error.kind }, `the last use of ${whose} was not written`);
      this.#isHeldUp = true;
      return;
    }
    this.#isHeldUp = false;
    // Until here they were shown from memory; later notes stay for the next time.
    for (const [id, usedAt] of uses) {
      if (this.#unwritten.get(id) === usedAt) this.#unwritten.delete(id);
    }
  }

  #writeLater(): void {
    const { clock, writeEveryMs } = this.#deps;
    this.#timer ??= clock.setTimer(writeEveryMs, () => void this.#writeInTurn());
  }

  async #writeInTurn(): Promise<void> {
    const { whose, log } = this.#deps;
    try {
      await this.write();
      // Notes that could not be written must not wait for another use.
      if (this.#unwritten.size > 0) this.#writeLater();
    } catch (error) {
      log.error({ err: error }, `the last use of ${whose} cannot be written`);
    }
  }
}

/** When API keys, workers and sessions were last used, by their ids; a session only by a person. */
export function usageNotes({
  store,
  ...parts
}: Pick<UsageNotesDeps<unknown>, "clock" | "log"> & {
  readonly store: Pick<Store, "touchKeys" | "touchWorkers" | "touchSessions">;
}) {
  return {
    keyUsage: new UsageNotes<string>({
      ...parts,
      whose: "keys",
      writeEveryMs: MINUTE_MS,
      write: (uses) => store.touchKeys(uses.map(([keyId, usedAt]) => ({ keyId, usedAt }))),
    }),
    workerUsage: new UsageNotes<number>({
      ...parts,
      whose: "workers",
      // There are few workers, and an operator who misses one wants to know now.
      writeEveryMs: 5000,
      write: (uses) => store.touchWorkers(uses.map(([workerId, seenAt]) => ({ workerId, seenAt }))),
    }),
    sessionUsage: new UsageNotes<number>({
      ...parts,
      whose: "sessions",
      writeEveryMs: MINUTE_MS,
      write: (uses) =>
        store.touchSessions(uses.map(([sessionId, seenAt]) => ({ sessionId, seenAt }))),
    }),
  };
}
