import { chmodSync, existsSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import { isBusy, openDatabase, type Connection } from "./connection.ts";
import { makeForOwner } from "./open-files.ts";

/** The process that serves a database file. */
export interface LockHolder {
  readonly pid: number;
  /** Null until it listens. */
  readonly url: string | null;
}

/** Another process serves the file. */
export class InstanceLockError extends Error {
  override readonly name = "InstanceLockError" as const;
  readonly holder: LockHolder | null;
  constructor(file: string, holder: LockHolder | null) {
    const who = holder === null ? "another process" : `process ${holder.pid}`;
    const where = holder?.url ? ` at ${holder.url}` : "";
    super(
      `${file} is already served by ${who}${where}; stop it first, or name another file with --db`,
    );
    this.holder = holder;
  }
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS holder (one INTEGER PRIMARY KEY CHECK (one = 1), pid INTEGER NOT NULL, url TEXT);`;
const WRITE_HOLDER = `INSERT INTO holder VALUES (1, ?, ?)
  ON CONFLICT (one) DO UPDATE SET pid = excluded.pid, url = excluded.url`;

const READERS_WAIT_MS = 2000;

// The garbage collector must not release a lock without references.
const held = new Set<InstanceLock>();

/**
 * Keeps a second instance off a database file. The lock file beside it is a tiny SQLite database that names the holder;
 * the lock itself is SQLite's reserved lock on that file, held as long as the process lives. The kernel drops it when
 * the process dies, however it dies, so no lock is ever stale; and others can still read who holds it.
 */
export class InstanceLock {
  readonly #file: string;
  readonly #connection: Connection;

  private constructor(file: string, connection: Connection) {
    this.#file = file;
    this.#connection = connection;
  }

  /** Takes the lock for a database file. Throws {@link InstanceLockError} when another process holds it. */
  static acquire(databaseFile: string): InstanceLock {
    const file = lockFileOf(databaseFile);
    makeForOwner(file, databaseFile);
    const connection = openDatabase(file, { timeout: 0 });
    try {
      chmodSync(file, 0o600);
      const lock = new InstanceLock(databaseFile, connection);
      lock.#hold({ pid: process.pid, url: null });
      held.add(lock);
      return lock;
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  /** Names the address that the holder serves. Throws like `acquire` if another process took the lock meanwhile. */
  announce(url: string): void {
    this.#connection.exec("ROLLBACK");
    this.#hold({ pid: process.pid, url });
  }

  /** Releases the file. The holder's name stays, but means nothing without the lock. */
  release(): void {
    held.delete(this);
    this.#connection.close();
  }

  // Others can read only what is committed, and a commit releases the lock for an instant. The second BEGIN fails if
  // another process was faster, and then this process must not go on.
  #hold(holder: LockHolder): void {
    this.#begin();
    // A commit waits for those who read the file; only the lock itself is taken without waiting.
    this.#connection.pragma(`busy_timeout = ${READERS_WAIT_MS}`);
    this.#connection.exec(SCHEMA);
    this.#connection.prepare(WRITE_HOLDER).run(holder.pid, holder.url);
    this.#connection.exec("COMMIT");
    this.#connection.pragma("busy_timeout = 0");
    this.#begin();
  }

  #begin(): void {
    try {
      this.#connection.exec("BEGIN IMMEDIATE");
    } catch (error) {
      if (!isBusy(error)) throw error;
      throw new InstanceLockError(this.#file, readHolder(this.#file));
    }
  }
}

/** The holder, or last holder, of the lock of a database file; null if it was never held. */
export function readHolder(databaseFile: string): LockHolder | null {
  const file = lockFileOf(databaseFile);
  if (!existsSync(file)) return null;
  const connection = openDatabase(file, { readonly: true, timeout: 1000 });
  try {
    return connection.prepare<[], LockHolder>("SELECT pid, url FROM holder").get() ?? null;
  } catch {
    return null; // A lock file from the instant before its first commit names nobody.
  } finally {
    connection.close();
  }
}

// Uses the file's real path: SQLite follows symbolic links, and two names of one file must share one lock.
function lockFileOf(databaseFile: string): string {
  if (existsSync(databaseFile)) return `${realpathSync(databaseFile)}.lock`;
  const folder = dirname(databaseFile);
  // The caller that opens the file reports a missing folder.
  return `${join(existsSync(folder) ? realpathSync(folder) : folder, basename(databaseFile))}.lock`;
}
