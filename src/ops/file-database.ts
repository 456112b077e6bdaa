import { type Stats, accessSync, constants, existsSync, statSync, statfsSync } from "node:fs";
import { stat, statfs } from "node:fs/promises";
import { userInfo } from "node:os";
import { dirname } from "node:path";

import type { Config } from "../config/config.ts";
import { codeOf, messageOf } from "../domain/error.ts";
import type { TellProgress } from "../domain/log.ts";
import { type BackupOrder, type BackupRun, startBackup } from "../store/sqlite/backup.ts";
import { sqliteCodeOf } from "../store/sqlite/machine/connection.ts";
import { refuseDamagedFile } from "../store/sqlite/machine/file-check.ts";
import {
  InstanceLock,
  InstanceLockError,
  type LockHolder,
  readHolder,
} from "../store/sqlite/machine/instance-lock.ts";
import {
  followLinks,
  refuseOpenElsewhere,
  refuseSecondName,
} from "../store/sqlite/machine/open-files.ts";
import { clearWal } from "../store/sqlite/machine/wal-file.ts";
import { type Restoration, type Restored, restoreCopy } from "../store/sqlite/restore.ts";
import { type SqliteStoreOptions, openSqliteStore } from "../store/sqlite/sqlite-store.ts";
import { type Store, StoreError } from "../store/store.ts";
import {
  type AdminStore,
  type DaemonStoreParts,
  type Database,
  DatabaseError,
  type DatabaseSizes,
  type Watch,
  type WatchParts,
  refuseServedFile,
} from "./database.ts";
import { FileWatch, fileSystemOf } from "./storage.ts";

export class FileDatabase implements Database {
  readonly #file: string;
  readonly #backlogMax: number;
  readonly #mayBeOnNetwork: boolean;

  constructor({
    database,
    limits,
    allowNetworkFs,
  }: Pick<Config, "database" | "limits" | "allowNetworkFs">) {
    this.#file = database;
    this.#mayBeOnNetwork = allowNetworkFs;
    this.#backlogMax = limits.writeBacklog;
  }

  reload(): void {
    // Nothing of a file is a matter of the configuration while it is served.
  }

  lock(): InstanceLock {
    if (!this.#mayBeOnNetwork) refuseNetwork(this.#file);
    try {
      refuseSecondName(this.#file);
      refuseOpenElsewhere(this.#file);
      return InstanceLock.acquire(this.#file);
    } catch (error) {
      if (error instanceof InstanceLockError) throw error;
      throw toDatabaseError(this.#file, error);
    }
  }

  explain(error: unknown): unknown {
    const isOfFile = error instanceof StoreError || sqliteCodeOf(error) !== "";
    return isOfFile ? toDatabaseError(this.#file, error) : error;
  }

  holder(): LockHolder | null {
    return readHolder(this.#file);
  }

  async openDaemonStore({ mode, ...parts }: DaemonStoreParts): Promise<Store> {
    if (mode === "dev") refuseServedFile(this.#file);
    const isNew = isEmpty(this.#file);
    const store = await this.#open({ writer: "thread", ...parts });
    // After the loss of a file, its operator has to notice that the daemon does not serve the old tasks.
    if (isNew && mode === "start") parts.log.warn({ file: this.#file }, NEW_DATABASE);
    return store;
  }

  becomeOwner(): string | null {
    return becomeOwner(this.#file);
  }

  /** If it creates no file, it creates nothing next to it either. */
  async openAdminStore({ mayCreate }: { readonly mayCreate: boolean }): Promise<AdminStore> {
    const file = this.#file;
    const isNew = isEmpty(file);
    if (isNew && !mayCreate) {
      const fault = placeFault(file);
      throw new DatabaseError(
        fault === null
          ? `database ${file} does not exist; name another with --db, or create it with 'postbackd admin account create LOGIN'`
          : `${file} cannot be opened: ${fault}`,
      );
    }
    return { store: await this.#open({ writer: "inline" }), isNew };
  }

  async migrate(): Promise<never> {
    throw new DatabaseError(
      `${this.#file} is a file, whose tables its daemon makes at the start; name a server with --db`,
    );
  }

  commandOwner(): string {
    return fileOwner(this.#file);
  }

  watch(parts: WatchParts): Watch {
    return new FileWatch({ ...parts, file: this.#file });
  }

  freeBytes(): number {
    const { bavail, bsize } = statfsSync(dirname(this.#file));
    return bavail * bsize;
  }

  async sizes(): Promise<DatabaseSizes> {
    const [bytes, walBytes, disk] = await Promise.all([
      sizeOf(this.#file),
      sizeOf(`${this.#file}-wal`),
      diskOf(dirname(this.#file)),
    ]);
    return { bytes, walBytes, ...disk };
  }

  clearWal(): boolean {
    return clearWal(this.#file);
  }

  startBackup(order: Omit<BackupOrder, "database">, tell?: TellProgress): BackupRun {
    const { file } = order;
    if (!existsSync(this.#file)) {
      throw new DatabaseError(`database ${this.#file} does not exist; name another with --db`);
    }
    if (!isFolder(dirname(file))) {
      throw new DatabaseError(
        `the folder ${dirname(file)} does not exist; make it, or name another file`,
      );
    }
    return startBackup({ ...order, database: this.#file }, tell);
  }

  async restore(restoration: Omit<Restoration, "database">): Promise<Restored> {
    const fault = existsSync(this.#file) ? null : placeFault(this.#file);
    if (fault !== null) throw new DatabaseError(`${this.#file} cannot be created: ${fault}`);
    return restoreCopy({ ...restoration, database: this.#file });
  }

  async #open(how: Omit<SqliteStoreOptions, "file" | "backlogMax">): Promise<Store> {
    const file = this.#file;
    try {
      refuseDamagedFile(file);
      return await openSqliteStore({ file, backlogMax: this.#backlogMax, ...how });
    } catch (error) {
      throw toDatabaseError(file, error);
    }
  }
}

const NEW_DATABASE = "a new, empty database was created";

/** True for a missing file too: SQLite creates a database in both cases. */
function isEmpty(file: string): boolean {
  return (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0;
}

function refuseNetwork(file: string): void {
  // The caller that opens the file reports a missing folder.
  if (!existsSync(dirname(file))) return;
  const { name, kind } = fileSystemOf(file);
  if (kind !== "network") return;
  throw new DatabaseError(
    `${file} lies on a network file system (${name}), where locks do not stop a second daemon, and two daemons destroy the ` +
      "file: move it to a disk of this machine, or use PostgreSQL (--db postgres://…); to serve it nevertheless, give " +
      "--allow-network-fs",
  );
}

// A missing file has no bytes.
async function sizeOf(file: string): Promise<number> {
  return stat(file).then(
    ({ size }) => size,
    () => 0,
  );
}

async function diskOf(
  folder: string,
): Promise<Pick<DatabaseSizes, "diskFreeBytes" | "diskTotalBytes">> {
  return statfs(folder).then(
    ({ bavail, blocks, bsize }) => ({
      diskFreeBytes: bavail * bsize,
      diskTotalBytes: blocks * bsize,
    }),
    () => ({ diskFreeBytes: null, diskTotalBytes: null }),
  );
}

function toDatabaseError(file: string, error: unknown): DatabaseError {
  // SQLite says only "unable to open database file" for most faults of a place.
  const fault = placeFault(file);
  if (fault !== null) {
    return new DatabaseError(`${file} cannot be opened: ${fault}`, { cause: error });
  }
  const reason = messageOf(error) + diskHint(file);
  // Some messages name the file already.
  const message = reason.includes(file) ? reason : `${file} cannot be opened: ${reason}`;
  return new DatabaseError(message, { cause: error });
}

const OTHERWISE = "or name another file with --db";

/** Describes what is wrong with the place of a database file and how to fix it; null when nothing is. */
function placeFault(file: string): string | null {
  const folder = dirname(file);
  if (!existsSync(folder) || !isFolder(folder)) {
    return `the folder ${folder} does not exist; make it, ${OTHERWISE}`;
  }
  const folderCode = accessCode(folder, constants.W_OK | constants.X_OK);
  if (folderCode !== null) {
    return (
      `its folder ${folder} cannot be written (${folderCode}), and SQLite keeps files beside the ` +
      `database; make the folder writable for this user, ${OTHERWISE}`
    );
  }
  if (isFolder(file)) return "it is a folder; name a file in it with --db";
  for (const suffix of ["", "-wal", "-shm", ".lock"]) {
    const code = accessCode(`${file}${suffix}`, constants.R_OK | constants.W_OK);
    if (code === null || code === "ENOENT") continue;
    const subject = suffix === "" ? "it" : `${file}${suffix}`;
    // An admin command that root ran leaves files of another user.
    return `${subject} cannot be read and written (${code}); make it this user's own, ${OTHERWISE}`;
  }
  return null;
}

function accessCode(path: string, mode: number): string | null {
  try {
    accessSync(path, mode);
    return null;
  } catch (error) {
    return codeOf(error) ?? "unknown error";
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

const LITTLE_SPACE_BYTES = 1024 ** 2;

function diskHint(file: string): string {
  const { bavail, bsize } = statfsSync(dirname(file));
  const isFull = bavail * bsize < LITTLE_SPACE_BYTES;
  return isFull ? "; its disk has almost no free space: make some and start again" : "";
}

/**
 * Switches a process of root permanently to the owner of a database file, or of its folder if the file does not exist
 * yet. So nothing that it leaves there is root's, and nothing that this user has put there, such as a link, is followed
 * with root's rights. Returns the user's name. Null if the user stays the same: the process is not root's, the file is
 * root's, or that user cannot reach the file.
 */
export function becomeOwner(file: string): string | null {
  if (process.geteuid?.() !== 0) return null;
  // The user who made a link may aim it at any file, so root acts as that user and not as the owner of the file.
  const owner = followLinks(file).foreign?.stats ?? look(file) ?? look(dirname(file));
  if (owner === null || owner.uid === 0 || !isReachedBy(owner, dirname(file))) return null;
  process.setgroups?.([owner.gid]);
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
  return nameOfThisUser();
}

/** The name of the user that this process acts as; the number if the user has no name. */
function nameOfThisUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.geteuid?.()}`;
  }
}

function look(path: string): Stats | null {
  return statSync(path, { throwIfNoEntry: false }) ?? null;
}

/** Tries it as that user: only the system knows all of its rules. */
function isReachedBy({ uid, gid }: Stats, folder: string): boolean {
  const groupBefore = process.getegid?.() ?? 0;
  process.setegid?.(gid);
  process.seteuid?.(uid);
  try {
    return look(folder) !== null;
  } catch {
    return false;
  } finally {
    process.seteuid?.(0);
    process.setegid?.(groupBefore);
  }
}

/** The owner of a file's commands. An open file keeps its numbers, and the lock keeps other daemons from it. */
export function fileOwner(file: string): string {
  const { dev, ino } = statSync(file, { bigint: true });
  return `database-${dev}-${ino}`;
}
