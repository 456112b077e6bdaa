import type { Clock } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import { StoreError, type Store } from "../store/store.ts";

export interface StorageWatchDeps {
  readonly store: Pick<Store, "usedBytes" | "shortage" | "tryWrite" | "hasSeveralAccounts">;
  readonly clock: Clock;
  readonly log: Logger;
  /** How many bytes are free for more data; throws when the disk does not answer. */
  readonly freeBytes: () => number;
  /** The free space below which there is no room; 0 is no limit. */
  readonly diskFreeBytes: number;
  /** The amount of data at which there is no room; 0 is no limit. */
  readonly databaseBytes: number;
}

const NO_WRITES =
  "the last write found no room: the disk, a quota or a file-size limit is full, or the file system is read-only";

// One second of writing at full speed takes far less than the floor leaves.
const AGE_MS_MAX = 1000;
const TOLD_EVERY_MS = 60_000;

/**
 * Tells whether there is room for new data: the disk's floor, the database's quota, and whether the last write found
 * room, looked at once a second at most. Tasks that were accepted before are finished and delivered either way; the
 * floor is there for them.
 */
export class StorageWatch {
  readonly #deps: StorageWatchDeps;
  #lookedAt = 0;
  #look: Promise<void> | null = null;
  #underWay: Promise<void> | null = null;
  #shortage: string | null = null;
  #shareBytes = 0;
  /** The shortage that was logged last, and when by the monotonic clock. */
  #toldOf: string | null = null;
  #toldAt = 0;
  /** True while its end is still to be logged. */
  #isTold = false;

  constructor(deps: StorageWatchDeps) {
    this.#deps = deps;
  }

  /**
   * Describes for the operator what there is too little of; null while there is room. The look is at most a second old.
   */
  async shortage(): Promise<string | null> {
    const now = this.#deps.clock.monotonic();
    const isNews =
      this.#underWay === null && this.#shortage === null && this.#deps.store.shortage() !== null;
    if (this.#look === null || isNews || now - this.#lookedAt >= AGE_MS_MAX) {
      this.#lookedAt = now;
      this.#look = this.#lookNow();
    }
    await this.#look;
    return this.#shortage;
  }

  /** The same, looked at now or under way, and without sparing those who ask after it a look of their own. */
  async shortageNow(): Promise<string | null> {
    await this.#lookNow();
    return this.#shortage;
  }

  /**
   * The bytes that one account may take while there are others: half of the room for data, so that an account that
   * fills its half leaves the others theirs. 0 is no limit. As of the last look.
   */
  get shareBytes(): number {
    return this.#shareBytes;
  }

  /** One look at a time: an older one that ends later would say again what is over. */
  #lookNow(): Promise<void> {
    this.#underWay ??= this.#lookOnce().finally(() => (this.#underWay = null));
    return this.#underWay;
  }

  async #lookOnce(): Promise<void> {
    try {
      const room = { used: await this.#deps.store.usedBytes(), free: this.#freeBytes() };
      this.#shareBytes = await this.#share(room);
      this.#note(this.#roomShortage(room) ?? (await this.#writeShortage()));
    } catch (error) {
      // A store that cannot be read reports that itself.
      if (!(error instanceof StoreError)) throw error;
    }
  }

  #note(shortage: string | null): void {
    if (shortage === this.#shortage) return;
    this.#shortage = shortage;
    const { log, clock } = this.#deps;
    if (shortage === null) {
      if (this.#isTold) log.info({}, "there is room again: new tasks are accepted");
      this.#isTold = false;
      return;
    }
    // When small writes find room and larger ones do not, the shortage comes and goes.
    const now = clock.monotonic();
    if (this.#toldOf === shortage && now - this.#toldAt < TOLD_EVERY_MS) return;
    this.#toldOf = shortage;
    this.#toldAt = now;
    this.#isTold = true;
    log.warn({}, `no new tasks are accepted (50700): ${shortage}`);
  }

  #roomShortage({ used, free }: Room): string | null {
    const { diskFreeBytes, databaseBytes } = this.#deps;
    if (free < diskFreeBytes) return "the disk has less free space than limits.disk_free";
    if (databaseBytes === 0 || used < databaseBytes) return null;
    return "the database holds as much as limits.database_size";
  }

  // Never 0 while there is a limit, because 0 means no limit.
  async #share({ used, free }: Room): Promise<number> {
    const { store, diskFreeBytes, databaseBytes } = this.#deps;
    const ofDisk = diskFreeBytes === 0 ? Number.POSITIVE_INFINITY : used + free - diskFreeBytes;
    const ofDatabase = databaseBytes === 0 ? Number.POSITIVE_INFINITY : databaseBytes;
    const room = Math.min(ofDisk, ofDatabase);
    if (room === Number.POSITIVE_INFINITY || !(await store.hasSeveralAccounts())) return 0;
    return Math.max(1, Math.floor(room / 2));
  }

  // A disk that does not answer is not known to be full; without a floor nobody needs to know.
  #freeBytes(): number {
    const { freeBytes, diskFreeBytes, log } = this.#deps;
    if (diskFreeBytes === 0) return Number.POSITIVE_INFINITY;
    try {
      return freeBytes();
    } catch (error) {
      log.warn({ err: error }, "the disk's free space is unknown");
      return Number.POSITIVE_INFINITY;
    }
  }

  // While nothing is accepted, there may be nothing to write that could find out that there is room again.
  async #writeShortage(): Promise<string | null> {
    const { store } = this.#deps;
    if (store.shortage() === null) return null;
    try {
      await store.tryWrite();
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
    return store.shortage() === null ? null : NO_WRITES;
  }
}

interface Room {
  /** The bytes of data in the database. */
  readonly used: number;
  /** The bytes that are free on the disk; Infinity when that is not known. */
  readonly free: number;
}
