import { statfsSync } from "node:fs";
import { dirname } from "node:path";

import type { Clock } from "./domain/clock.ts";
import type { Logger } from "./domain/log.ts";
import { StoreError, type Store } from "./store/store.ts";

export interface StorageWatchDeps {
  readonly store: Pick<Store, "usedBytes">;
  readonly clock: Clock;
  readonly log: Logger;
  /** The database file. */
  readonly file: string;
  /** Free space below which there is no room; 0 is no limit. */
  readonly diskFreeBytes: number;
  /** Data from which on there is no room; 0 is no limit. */
  readonly databaseBytes: number;
}

// What one second can write at full speed is far less than the floor leaves.
const AGE_MS_MAX = 1000;

/**
 * Whether there is room for what is new: the disk's floor and the database's quota, looked at most once a
 * second. What was taken in before is finished and delivered either way; the floor is what that needs.
 */
export class StorageWatch {
  readonly #deps: StorageWatchDeps;
  #lookedAt = 0;
  #look: Promise<void> | null = null;
  #shortage: string | null = null;

  constructor(deps: StorageWatchDeps) {
    this.#deps = deps;
  }

  /** What is short, in words for the operator; null while there is room. By a look at most a second old. */
  async shortage(): Promise<string | null> {
    const now = this.#deps.clock.monotonic();
    if (this.#look === null || now - this.#lookedAt >= AGE_MS_MAX) {
      this.#lookedAt = now;
      this.#look = this.#lookNow();
    }
    await this.#look;
    return this.#shortage;
  }

  async #lookNow(): Promise<void> {
    try {
      this.#note(this.#diskShortage() ?? (await this.#databaseShortage()));
    } catch (error) {
      // A store that cannot be read says so itself.
      if (!(error instanceof StoreError)) throw error;
    }
  }

  #note(shortage: string | null): void {
    if (shortage === this.#shortage) return;
    const { log } = this.#deps;
    if (shortage !== null) log.warn({}, `nothing new is taken in (50700): ${shortage}`);
    else log.info({}, "there is room again: new tasks are taken in");
    this.#shortage = shortage;
  }

  #diskShortage(): string | null {
    const { file, diskFreeBytes } = this.#deps;
    if (diskFreeBytes === 0 || this.#freeBytes(dirname(file)) >= diskFreeBytes) return null;
    return "the disk has less free space than limits.disk_free";
  }

  // A disk that cannot be asked is not known to be full.
  #freeBytes(folder: string): number {
    try {
      const { bavail, bsize } = statfsSync(folder);
      return bavail * bsize;
    } catch (error) {
      this.#deps.log.warn({ err: error }, "the disk's free space is unknown");
      return Number.POSITIVE_INFINITY;
    }
  }

  async #databaseShortage(): Promise<string | null> {
    const { store, databaseBytes } = this.#deps;
    if (databaseBytes === 0 || (await store.usedBytes()) < databaseBytes) return null;
    return "the database holds as much as limits.database_size";
  }
}
