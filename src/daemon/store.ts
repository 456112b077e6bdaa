import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";

import type { Config } from "../config/config.ts";
import type { Logger } from "../domain/log.ts";
import { codeOf, messageOf } from "../domain/message-of.ts";
import { refuseDamagedFile } from "../store/sqlite/machine/file-check.ts";
import { InstanceLock, InstanceLockError } from "../store/sqlite/machine/instance-lock.ts";
import { refuseOpenElsewhere, refuseSecondName } from "../store/sqlite/machine/open-files.ts";
import { clearWal } from "../store/sqlite/machine/wal-clearing.ts";
import { openSqliteStore, type SqliteStoreOptions } from "../store/sqlite/sqlite-store.ts";
import type { Store } from "../store/store.ts";

export { clearWal };

/**
 * The part of the composition root that opens the database. It is apart from daemon.ts because a command that only
 * looks something up should not wait until the HTTP server and all the rest are loaded.
 */

/** The database cannot be opened or made; the message names the file and tells why. */
export class DatabaseError extends Error {
  override readonly name = "DatabaseError" as const;
}

/**
 * Opens the store for a command that does a few steps and ends, beside a running daemon or without one. Makes the file
 * if there is none and it may, and tells so; otherwise it makes nothing, beside the file neither. Rejects with a {@link
 * DatabaseError}.
 */
export async function openAdminStore(
  config: Config,
  { mayCreate }: { readonly mayCreate: boolean },
): Promise<{ readonly store: Store; readonly isNew: boolean }> {
  const { database } = config;
  const isNew = !existsSync(database);
  if (isNew && !mayCreate) {
    const fault = placeFault(database);
    throw new DatabaseError(
      fault === null
        ? `there is no database ${database}; name one with --db, or make it with 'postbackd admin account create LOGIN'`
        : `${database} cannot be opened: ${fault}`,
    );
  }
  return { store: await openStore(config, { writer: "inline" }), isNew };
}

type DaemonStoreParts = Required<Pick<SqliteStoreOptions, "clock" | "giveWay">> &
  Pick<SqliteStoreOptions, "observer"> & { readonly log: Logger };

/** Opens the store for the daemon; logs when it migrates the file. Rejects with a {@link DatabaseError}. */
export function openDaemonStore(
  config: Config,
  { log, clock, giveWay, observer }: DaemonStoreParts,
): Promise<Store> {
  return openStore(config, {
    writer: "thread",
    clock,
    giveWay,
    observer,
    migrating: ({ from, to, copy }) =>
      log.warn(
        { from, to, copy },
        "migrating the database to a newer version, after copying it; a large one takes minutes",
      ),
  });
}

/** Takes the lock of the daemon. Throws an InstanceLockError or a {@link DatabaseError}. */
export function acquireInstanceLock({ database }: Config): InstanceLock {
  try {
    refuseSecondName(database);
    refuseOpenElsewhere(database);
    return InstanceLock.acquire(database);
  } catch (error) {
    if (error instanceof InstanceLockError) throw error;
    throw toDatabaseError(database, error);
  }
}

async function openStore(
  { database, limits }: Config,
  how: Pick<SqliteStoreOptions, "writer" | "clock" | "migrating" | "giveWay" | "observer">,
): Promise<Store> {
  try {
    refuseDamagedFile(database);
    return await openSqliteStore({ file: database, backlogMax: limits.writeBacklog, ...how });
  } catch (error) {
    throw toDatabaseError(database, error);
  }
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
