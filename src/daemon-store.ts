import type { Config } from "./config.ts";
import { InstanceLock, InstanceLockError } from "./store/sqlite/instance-lock.ts";
import { openSqliteStore, type SqliteStoreOptions } from "./store/sqlite/sqlite-store.ts";
import type { Store } from "./store/store.ts";

/**
 * The part of the composition root that opens the database. Apart from daemon.ts because a command that
 * only looks something up should not wait until the HTTP server and all the rest are loaded.
 */

/** The database cannot be opened or made; the message names the file and says why. */
export class DatabaseError extends Error {
  override readonly name = "DatabaseError" as const;
}

/**
 * Opens the store for a command that does a few steps and ends, beside a running daemon or without one;
 * makes the file where there is none. Rejects with a {@link DatabaseError}.
 */
export function openAdminStore(config: Config): Promise<Store> {
  return openStore(config, "inline");
}

/** Opens the store for the daemon. Rejects with a {@link DatabaseError}. */
export function openDaemonStore(config: Config): Promise<Store> {
  return openStore(config, "thread");
}

/** Takes the lock of the daemon. Throws an InstanceLockError or a {@link DatabaseError}. */
export function acquireInstanceLock({ database }: Config): InstanceLock {
  try {
    return InstanceLock.acquire(database);
  } catch (error) {
    if (error instanceof InstanceLockError) throw error;
    throw toDatabaseError(database, error);
  }
}

async function openStore(
  { database, limits }: Config,
  writer: SqliteStoreOptions["writer"],
): Promise<Store> {
  try {
    return await openSqliteStore({ file: database, writer, backlogMax: limits.writeBacklog });
  } catch (error) {
    throw toDatabaseError(database, error);
  }
}

function toDatabaseError(file: string, error: unknown): DatabaseError {
  const reason = error instanceof Error ? error.message : String(error);
  // Some of them name the file already.
  const message = reason.includes(file) ? reason : `${file} cannot be opened: ${reason}`;
  return new DatabaseError(message, { cause: error });
}
