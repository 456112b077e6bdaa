import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import type { WorkCounts } from "../domain/stats/work-counts.ts";
import { StoreError, type Store } from "../store/store.ts";
import type { Database, DatabaseSizes } from "./database.ts";

export interface StoreSampleParts {
  readonly clock: Clock;
  readonly log: Logger;
  readonly store: Pick<Store, "countWork" | "usedBytes">;
  readonly database: Pick<Database, "sizes">;
  /** Looks at every configured type. */
  readonly types: () => Promise<readonly TypeSample[]>;
}

/** The work of a type. */
export interface TypeSample {
  readonly name: string;
  readonly running: number;
  readonly waiting: number;
  /** True if more wait than were counted. */
  readonly isMoreWaiting: boolean;
  /** How long the longest-waiting task has waited; 0 when none waits. */
  readonly oldestMs: number;
  /** Null for a type that no worker runs. */
  readonly workersWaiting: number | null;
  /** False where tasks wait that no worker seems to want; null for a type that no worker runs. */
  readonly hasWorker: boolean | null;
}

/** Numbers read from the database at a moment; what could not be read is null. */
export interface Sampled {
  /** Monotonic. */
  readonly takenAt: number;
  readonly types: readonly TypeSample[] | null;
  readonly counts: WorkCounts | null;
  readonly sizes: DatabaseSizes;
  readonly dataBytes: number | null;
}

const FRESH_MS = 5000;
const STALE_MS = 30_000;

/**
 * How much there is in the database, for whoever asks every few seconds. It takes some milliseconds of another thread
 * to read, so it is read ahead: who asks gets what was read when somebody asked last, and has it read again for the next
 * one. Only what is older than 30 s is waited for. However many ask, it is read once in 5 s.
 */
export class StoreSample {
  readonly #parts: StoreSampleParts;
  #last: Sampled | null = null;
  #reading: Promise<Sampled> | null = null;

  constructor(parts: StoreSampleParts) {
    this.#parts = parts;
  }

  async look(): Promise<Sampled> {
    const last = this.#last;
    const ageMs = last === null ? Infinity : this.#parts.clock.monotonic() - last.takenAt;
    if (last !== null && ageMs < FRESH_MS) return last;
    this.#reading ??= this.#read().finally(() => (this.#reading = null));
    if (last === null || ageMs >= STALE_MS) return this.#reading;
    this.#reading.catch((err: unknown) =>
      this.#parts.log.error({ err }, "the numbers for /metrics could not be read"),
    );
    return last;
  }

  async #read(): Promise<Sampled> {
    const { clock, store, database, types } = this.#parts;
    const takenAt = clock.monotonic();
    const [sampledTypes, counts, sizes, dataBytes] = await Promise.all([
      unlessUnreadable(types()),
      unlessUnreadable(store.countWork(null)),
      database.sizes(),
      unlessUnreadable(store.usedBytes()),
    ]);
    this.#last = { takenAt, types: sampledTypes, counts, sizes, dataBytes };
    return this.#last;
  }
}

/** Null where the database does not answer: that must not keep anybody from seeing it. */
export async function unlessUnreadable<Value>(read: Promise<Value>): Promise<Value | null> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof StoreError) return null;
    throw error;
  }
}
