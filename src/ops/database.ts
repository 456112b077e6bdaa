import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import type { Logger, TellProgress } from "../domain/log.ts";
import type { Observer } from "../domain/observer.ts";
import type { GiveWay } from "../store/common/read-turns.ts";
import type { BackupOrder, BackupRun } from "../store/sqlite/backup.ts";
import type { InstanceLock, LockHolder } from "../store/sqlite/machine/instance-lock.ts";
import type { Restoration, Restored } from "../store/sqlite/restore.ts";
import { readServedFile } from "../store/sqlite/served-file.ts";
import type { Store } from "../store/store.ts";

/** A file of this machine or a database on a server: what the daemon and the commands do differently for the two. */
export interface Database {
  /** Locks the file, or this node's name on this machine. Throws an InstanceLockError or a {@link DatabaseError}. */
  lock(): InstanceLock;
  /** Takes over what may change while it is served: the password of a server, for connections from then on. */
  reload(next: Config): void;
  /** Returns a {@link DatabaseError} with a remedy for an error of SQLite or of the store, and any other error as it is. */
  explain(error: unknown): unknown;
  /**
   * The process that holds the lock, or the last process that held it; null if no process has held it. Throws when it
   * is unreadable.
   */
  holder(): LockHolder | null;
  /** Opens the store for the daemon. Rejects with a {@link DatabaseError}. */
  openDaemonStore(parts: DaemonStoreParts): Promise<Store>;
  /** Makes a command of root act as the owner of the file permanently. Returns the name; null if nothing changes. */
  becomeOwner(): string | null;
  /** Opens the store for a short command, whether a daemon runs or not. Rejects with a {@link DatabaseError}. */
  openAdminStore(how: { readonly mayCreate: boolean }): Promise<AdminStore>;
  /** Makes the tables on a server, or migrates them to this program's version. Rejects with a {@link DatabaseError}. */
  migrate(): Promise<Migrated>;
  /** The name under which the daemon's commands run; to be asked for while it holds the lock and its store is open. */
  commandOwner(): string;
  watch(parts: WatchParts): Watch;
  /** The bytes that are free for more data; Infinity where that is a server's business. Throws when a disk is silent. */
  freeBytes(): number;
  /** How much room it takes; null where that is a server's business. Never rejects. */
  sizes(): Promise<DatabaseSizes>;
  /** Empties the `-wal` of a file; false if another connection reads from it. */
  clearWal(): boolean;
  /** Begins a copy of it as it is now, beside a running daemon or without one. Throws a {@link DatabaseError}. */
  startBackup(order: Omit<BackupOrder, "database">, tell?: TellProgress): BackupRun;
  /** Puts a copy in its place. Rejects as `restoreCopy` does, or with a {@link DatabaseError}. */
  restore(restoration: Omit<Restoration, "database">): Promise<Restored>;
}

export interface DaemonStoreParts {
  /** For tests, a file that `start` has served is refused before anything in it is changed. */
  readonly mode: ServedMode;
  readonly clock: Clock;
  readonly log: Logger;
  readonly giveWay: GiveWay;
  readonly observer?: Observer | undefined;
}

export interface AdminStore {
  readonly store: Store;
  /** True when the file was made just now. */
  readonly isNew: boolean;
}

/** The schema versions before a migration (null for a new database) and after it. */
export interface Migrated {
  readonly from: number | null;
  readonly to: number;
}

export interface WatchParts {
  readonly store: Pick<
    Store,
    "checkFile" | "fault" | "lookAtFile" | "cluster" | "findDatabaseHealth"
  >;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Watch {
  start(): void;
  /** The problems that the operator should fix, as plain sentences. They stop nothing. */
  warnings(): readonly string[];
  /** Safe to call twice. */
  close(): void;
}

export interface DatabaseSizes {
  readonly bytes: number | null;
  readonly walBytes: number | null;
  readonly diskFreeBytes: number | null;
  readonly diskTotalBytes: number | null;
}

/** The database cannot be opened or created; the message has its name and the reason. */
export class DatabaseError extends Error {
  override readonly name = "DatabaseError" as const;
}

/** The command that serves a database: `postbackd start`, or `postbackd dev` for tests. The first process has it. */
export type ServedMode = "start" | "dev";

export function modeOf({ dev }: { readonly dev?: unknown }): ServedMode {
  return dev === undefined ? "start" : "dev";
}

/** Throws a {@link DatabaseError} for a file that `start` has served, before anything in it is changed. */
export function refuseServedFile(file: string): void {
  const { mode, hasAccounts } = readServedFile(file);
  // A program that knew no mode has served it.
  const first = mode ?? (hasAccounts ? "start" : "dev");
  if (first !== "dev") throw otherMode(file, "dev");
}

/** Marks a database that is open as served so. Rejects with a {@link DatabaseError} when it is served otherwise. */
export async function keepServedMode(
  store: Pick<Store, "keepSecret">,
  { database, mode }: { readonly database: string; readonly mode: ServedMode },
): Promise<void> {
  const kept = await store.keepSecret({ name: "mode", fresh: mode });
  if (kept !== mode) throw otherMode(database, mode);
}

function otherMode(database: string, mode: ServedMode): DatabaseError {
  return new DatabaseError(
    mode === "start"
      ? `${database} was made by 'postbackd dev', for tests: serve it with 'postbackd dev --db', or name another file with --db`
      : `${database} is the database of 'postbackd start': tests would send its webhooks and erase its tasks; name another ` +
          "file with --db, or leave it out for a throwaway one",
  );
}
