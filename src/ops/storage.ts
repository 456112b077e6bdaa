import { statfsSync } from "node:fs";
import { dirname } from "node:path";

import type { Clock, Timer } from "../domain/clock/clock.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../domain/clock/duration.ts";
import type { Logger } from "../domain/log.ts";
import { type DatabaseWarning, databaseWarnings } from "../domain/stats/health.ts";
import { FileFault, type Store, StoreError } from "../store/store.ts";
import type { Database } from "./database.ts";

export interface StorageWatchDeps {
  readonly store: Pick<Store, "usedBytes" | "shortage" | "tryWrite" | "hasSeveralAccounts">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly database: Pick<Database, "freeBytes">;
  /** The free space below which posts are refused; 0 means no limit. */
  readonly diskFreeBytes: number;
  /** The amount of data at which posts are refused; 0 means no limit. */
  readonly databaseBytes: number;
}

const NO_WRITES =
  "the last write found no room: the disk, a quota or a file-size limit is full, or the file system is read-only";

// One second of writing at full speed takes far less than the floor leaves.
const AGE_MS_MAX = 1000;
const SHORTAGE_TOLD_MS = MINUTE_MS;

/**
 * Whether new data has space, checked once a second at most. Accepted tasks are finished and
 * delivered in any case: the free-space minimum leaves space for them.
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

  /** Describes what is short, for the operator; null while there is space. The look is at most a second old. */
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

  /** Half of the space, which one account may use while others exist; 0 means no limit. As of the last look. */
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
    if (this.#toldOf === shortage && now - this.#toldAt < SHORTAGE_TOLD_MS) return;
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

  // A disk that does not respond does not count as full. Without a free-space minimum it is not read.
  #freeBytes(): number {
    const { database, diskFreeBytes, log } = this.#deps;
    if (diskFreeBytes === 0) return Number.POSITIVE_INFINITY;
    try {
      return database.freeBytes();
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
  readonly used: number;
  /** The bytes that are free on the disk; Infinity when that is not known. */
  readonly free: number;
}

export interface FileWatchDeps {
  readonly store: Pick<Store, "checkFile" | "fault" | "lookAtFile">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly file: string;
}

// Until it looks, tasks are acknowledged that are lost with the file. A look costs three calls of stat.
const FILE_LOOK_MS = 1000;
// A start has other things to do, and a daemon that runs for less is a test.
const CHECK_AFTER_MS = MINUTE_MS;
const CHECK_EVERY_MS = DAY_MS;
const PAUSE_MS_MIN = 1000;
// The check takes a tenth of the time.
const PAUSES_PER_CHECK = 9;

/** Checks each second that the served file is in its place, and for damage a minute after a start and daily. */
export class FileWatch {
  readonly #deps: FileWatchDeps;
  #isClosed = false;
  #lookTimer: Timer | null = null;
  #checkTimer: Timer | null = null;

  constructor(deps: FileWatchDeps) {
    this.#deps = deps;
  }

  /** Watches until {@link close}, or until a fault, which is permanent. */
  start(): void {
    this.#planLook();
    this.#planCheck(CHECK_AFTER_MS);
  }

  /** The fault of a file has the reason. */
  warnings(): readonly string[] {
    return [];
  }

  /** Stops watching. Safe to call twice. */
  close(): void {
    this.#lookTimer?.cancel();
    this.#checkTimer?.cancel();
    this.#isClosed = true;
  }

  #planLook(): void {
    this.#lookTimer = this.#deps.clock.setTimer(FILE_LOOK_MS, () => this.#look(), "tick");
  }

  #look(): void {
    this.#deps.store.lookAtFile();
    if (!this.#reportFault()) this.#planLook();
  }

  #reportFault(): boolean {
    const { store, log, file } = this.#deps;
    const fault = store.fault();
    if (this.#isClosed || !(fault instanceof FileFault)) return this.#isClosed;
    log.error({ file }, `nothing is acknowledged any more (50300): ${fault.message}`);
    this.close();
    return true;
  }

  #planCheck(afterMs: number): void {
    if (this.#isClosed) return;
    const check = (): void => void this.#check();
    this.#checkTimer = this.#deps.clock.setTimer(afterMs, check, "tick");
  }

  async #check(): Promise<void> {
    const { store, clock, log } = this.#deps;
    const startedAt = clock.monotonic();
    try {
      const step = await store.checkFile();
      if (this.#reportFault()) return;
      const tookMs = clock.monotonic() - startedAt;
      const pauseMs = Math.max(PAUSE_MS_MIN, PAUSES_PER_CHECK * tookMs);
      this.#planCheck(step === "more" ? pauseMs : CHECK_EVERY_MS);
    } catch (error) {
      if (this.#reportFault()) return;
      log.warn({ err: error }, "the database file could not be checked for damage");
      this.#planCheck(CHECK_EVERY_MS);
    }
  }
}

export interface ServerWatchDeps {
  readonly store: Pick<Store, "cluster" | "findDatabaseHealth">;
  readonly clock: Clock;
  readonly log: Logger;
}

// Posts are refused from 5 s after the loss of the only synchronous standby; the response has the reason.
const SERVER_LOOK_MS = 5000;
const WARNED_EVERY_MS = HOUR_MS;

/** Every node polls the health of PostgreSQL every few seconds. The node that sweeps logs problems hourly. */
export class ServerWatch {
  readonly #deps: ServerWatchDeps;
  /** When each was logged last, by the monotonic clock. */
  readonly #toldAt = new Map<string, number>();
  #warnings: readonly DatabaseWarning[] = [];
  #timer: Timer | null = null;

  constructor(deps: ServerWatchDeps) {
    this.#deps = deps;
  }

  /** Checks immediately, and then periodically until {@link close}. */
  start(): void {
    // A look is answered or given up within seconds.
    this.#timer = this.#deps.clock.setTimer(SERVER_LOOK_MS, () => this.start());
    void this.#look();
  }

  warnings(): readonly string[] {
    return this.#warnings.map(({ text }) => text);
  }

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
      // The last findings may be long over. The caller that needs PostgreSQL reports an unreachable server.
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
      if (now - (this.#toldAt.get(text) ?? Number.NEGATIVE_INFINITY) < WARNED_EVERY_MS) continue;
      this.#toldAt.set(text, now);
      log.warn(facts, text);
    }
  }
}

/** The kind of a file system, as far as it matters to a database. */
export interface FileSystem {
  /** As `mount` names it, or its number. */
  readonly name: string;
  readonly kind: "local" | "network" | "memory" | "overlay";
}

// The numbers of statfs(2). SQLite's locks and its shared memory do not reach other machines: two daemons on a network
// file system would each believe that they are alone.
const KINDS: ReadonlyMap<number, FileSystem> = new Map([
  [0x6969, { name: "nfs", kind: "network" }],
  [0x517b, { name: "smb", kind: "network" }],
  [0xff534d42, { name: "cifs", kind: "network" }],
  [0xfe534d42, { name: "smb2", kind: "network" }],
  [0x01021997, { name: "9p", kind: "network" }],
  [0x00c36400, { name: "ceph", kind: "network" }],
  [0x5346414f, { name: "afs", kind: "network" }],
  [0x01161970, { name: "gfs2", kind: "network" }],
  [0x7461636f, { name: "ocfs2", kind: "network" }],
  [0x0bd00bd0, { name: "lustre", kind: "network" }],
  [0x01021994, { name: "tmpfs", kind: "memory" }],
  [0x858458f6, { name: "ramfs", kind: "memory" }],
  [0x794c7630, { name: "overlay", kind: "overlay" }],
]);

/** The file system that a file lies on, or would. Throws when its folder cannot be asked. */
export function fileSystemOf(file: string): FileSystem {
  return fileSystemOfType(statfsSync(dirname(file)).type);
}

/** The file system of this number of statfs(2), which is signed on some machines. */
export function fileSystemOfType(type: number): FileSystem {
  const number = type >>> 0;
  return KINDS.get(number) ?? { name: `0x${number.toString(16)}`, kind: "local" };
}
