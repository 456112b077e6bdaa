import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  realpathSync,
  statSync,
} from "node:fs";
import { constants, setPriority } from "node:os";
import { dirname } from "node:path";
import { isMainThread } from "node:worker_threads";

import Database from "better-sqlite3";

import { prepareNativeAddon } from "../../../assets.ts";
import { codeOf, isError, messageOf } from "../../../domain/error.ts";
import { rewriteParameters } from "../../common/row.ts";
import { FileFault, damage } from "../../store-error.ts";
import { StoreError } from "../../store-error.ts";
import { refuseSecondName } from "./open-files.ts";

/** One connection to the file; synchronous, for one thread. */
export type Connection = Database.Database;

/** "pbkd" in ASCII, in the file's header: identifies a database of postbackd before anything is written to it. */
export const APPLICATION_ID = 0x70626b64;

// A commit that has split a page makes SQLite walk all pages of its cache (pcache1TruncateUnsafe): with 64 MiB that was 7 %
// of the writer's time while workers took tasks by 50. With 8 MiB it takes 0.87 of the time a task on a file of 555 MB,
// 0.97 on a new one, and the daemon 70 MB less (medians of six rounds' ratios; 16 MiB: 0.90, 4 MiB: 0.87).
const WRITER_CACHE_KIB = 8192;

const BUSY_TIMEOUT_MS = 5000;
// A read that waits blocks every request; in WAL mode only the recovery after a crash makes a read wait.
const READ_BUSY_TIMEOUT_MS = 1000;

/**
 * Opens the file for writing, and creates it if it does not exist, readable and writable by its owner only. Every
 * commit is an fsync. better-sqlite3 is compiled to run a WAL at NORMAL, which may lose acknowledged commits in a power
 * cut, so FULL is set here and read back.
 */
export function openWriter(file: string): Connection {
  refuseSecondName(file);
  const connection = openDatabase(file, { timeout: BUSY_TIMEOUT_MS });
  try {
    // Both must come before the first page; a file that already has one keeps its own settings.
    if (isEmpty(file))
      connection.exec("PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL;");
    claimFile(connection, file);
    // -wal and -shm take the mode of the file.
    chmodSync(file, 0o600);
    switchToWal(connection);
    connection.exec(`
      PRAGMA synchronous = FULL;
      PRAGMA foreign_keys = ON;
      PRAGMA wal_autocheckpoint = 0; -- BatchRunner checkpoints, where its errors can be seen
      PRAGMA journal_size_limit = 67108864;
      PRAGMA cache_size = -${WRITER_CACHE_KIB};
      PRAGMA temp_store = MEMORY;
      PRAGMA trusted_schema = OFF;
      PRAGMA secure_delete = ON;
      PRAGMA cell_size_check = ON;
    `);
    verify(connection, { journal_mode: "wal", synchronous: 2, foreign_keys: 1 });
    syncFoundWal(file);
    return connection;
  } catch (error) {
    connection.close();
    throw isDamage(error) ? newDamage(error) : error;
  }
}

/** Opens the file for reading only. It must exist and have tables. */
export function openReader(file: string): Connection {
  const connection = openDatabase(file, {
    readonly: true,
    fileMustExist: true,
    timeout: READ_BUSY_TIMEOUT_MS,
  });
  connection.exec(
    "PRAGMA query_only = ON; PRAGMA cache_size = -16000; PRAGMA trusted_schema = OFF;",
  );
  return connection;
}

/** Opens a database file and changes no settings of it. */
export function openDatabase(file: string, options: Database.Options): Connection {
  prepareNativeAddon(dirname(file));
  try {
    return compileOnce(new Database(file, options));
  } catch (error) {
    throw new Error(`cannot open the database ${file}: ${messageOf(error)}`, { cause: error });
  }
}

const PARAMETER = /[@?]\w*/;

// To choose a plan SQLite looks at the values of parameters in joins and in LIMIT, and compiles the statement again at
// each run, because the next values may call for another plan. That was most of the cost (measured: 25 of the 26 µs of
// task_get's statement). A sign before a parameter only keeps the planner from looking; the plans are tested.
function compileOnce(connection: Connection): Connection {
  const prepare = connection.prepare.bind(connection);
  const prepareSigned = (source: string): unknown =>
    prepare(rewriteParameters(source, PARAMETER, (parameter) => `+${parameter}`));
  // The types of parameters and rows stay as in the original.
  connection.prepare = prepareSigned as typeof connection.prepare;
  return connection;
}

// Refuses a file that belongs to another program before a single page of it is changed. Under the write
// lock, because another process may be making the same file.
function claimFile(connection: Connection, file: string): void {
  const claim = connection.transaction(() => {
    const id = connection.pragma("application_id", { simple: true });
    if (id === APPLICATION_ID) return;
    const tables = connection.prepare("SELECT count(*) FROM sqlite_schema").pluck().get();
    if (id !== 0 || tables !== 0) {
      throw new Error(`${file} is a database of another program; name another file with --db`);
    }
    connection.pragma(`application_id = ${APPLICATION_ID}`);
  });
  try {
    claim.immediate();
  } catch (error) {
    if (sqliteCodeOf(error) !== "SQLITE_NOTADB") throw error;
    throw new Error(`${file} is not a database; name another file with --db`, { cause: error });
  }
}

// A process that is killed between writing a commit and syncing it has not acknowledged it. But the commit is in the
// WAL, where the next process finds it: that process may answer with it, and a power cut would take it back (a repeated
// task_post was answered with tasks that were lost then, measured on images of a power cut). The WAL is beside the real
// file, where SQLite keeps it.
function syncFoundWal(file: string): void {
  const wal = `${realpathSync(file)}-wal`;
  if (existsSync(wal)) syncToDisk(wal);
}

/** Syncs a file or a folder. */
export function syncToDisk(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

const WAL_TRIES = 100;
const WAL_WAIT_MS = 20;

// SQLite does not wait for other connections when it changes the journal mode, for any busy timeout.
function switchToWal(connection: Connection): void {
  for (let triesLeft = WAL_TRIES; ; triesLeft--) {
    try {
      connection.pragma("journal_mode = WAL");
      return;
    } catch (error) {
      if (!isBusy(error) || triesLeft === 0) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WAL_WAIT_MS);
    }
  }
}

/** True for an error that says that another connection holds the file. */
export function isBusy(error: unknown): boolean {
  return sqliteCodeOf(error).startsWith("SQLITE_BUSY");
}

/** True for an error that says that the file holds something that SQLite cannot have written. */
export function isDamage(error: unknown): boolean {
  return /^SQLITE_(CORRUPT|NOTADB)/.test(sqliteCodeOf(error));
}

/**
 * Makes the error with which a read rejects: a file that cannot be read is the store's trouble; any other error stays
 * as it is.
 */
export function toReadError(error: unknown): unknown {
  if (sqliteCodeOf(error) === "") return error;
  if (isDamage(error)) return newDamage(error);
  const kind = isBusy(error) ? "busy" : "failed";
  return new StoreError(kind, "the database cannot be read", { cause: error });
}

function newDamage(error: unknown): FileFault {
  return new FileFault(damage(messageOf(error)), { cause: error });
}

/**
 * SQLite's name for an error, such as `SQLITE_FULL`; empty for any other error. The addon makes its errors by the class
 * of the first realm of the process that loaded it, so `instanceof` would miss them in each later one.
 */
export function sqliteCodeOf(error: unknown): string {
  return isError(error) && error.name === "SqliteError" ? (codeOf(error) ?? "") : "";
}

function isEmpty(file: string): boolean {
  return (statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0;
}

function verify(connection: Connection, wanted: Readonly<Record<string, string | number>>): void {
  for (const [name, value] of Object.entries(wanted)) {
    const actual = connection.pragma(name, { simple: true });
    if (actual === value) continue;
    throw new Error(
      `SQLite runs with ${name} = ${String(actual)} instead of ${value}; the file system may not support it`,
    );
  }
}

/** The version of SQLite that is compiled in. To be called once a database is open in this thread. */
export function sqliteVersion(): string {
  const connection = new Database(":memory:");
  try {
    return String(connection.prepare("SELECT sqlite_version()").pluck().get());
  } finally {
    connection.close();
  }
}

/**
 * Permanently gives other threads the processor first. For a process, or a thread of one, that does nothing else: on
 * Linux each thread has a priority of its own; elsewhere a thread keeps that of its process, which others need.
 */
export function giveWay(): void {
  if (!isMainThread && process.platform !== "linux") return;
  try {
    setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // A sandbox may forbid it, as systemd's `SystemCallFilter=~@resources` does. The work has to be done in any case.
  }
}
