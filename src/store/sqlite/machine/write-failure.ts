import { messageOf } from "../../../domain/error.ts";
import { damage, type FileTrouble } from "../../file-fault.ts";
import { sqliteCodeOf, isDamage } from "./connection.ts";

/** Why SQLite could not write: the write has not happened; and what may be tried next. */
export interface WriteFailure {
  /** After `full` and `busy` the same write may succeed later; after `failed` nothing may be written any more. */
  readonly kind: "full" | "busy" | "failed";
  readonly message: string;
  /** Set when the file itself is at fault. */
  readonly trouble?: FileTrouble;
}

/*
 * An error of SQLite means this for the data (found in SQLite's source, and tried with each of these errors):
 *
 * - A write that was not taken: SQLITE_FULL for ENOSPC, SQLITE_IOERR_WRITE for every other error, such as EDQUOT, EFBIG
 *   and EROFS; it does not say which. A write() that fails takes none of its bytes. In a COMMIT the frame that makes
 *   the batch valid, or its checksum, is written last: with any write refused the batch is undone, for every reader and
 *   for the recovery at the next start. What was committed before was synced by itself. In a checkpoint the WAL counts
 *   as copied only after the database file is written and synced: until then it stays the good copy, and the next
 *   checkpoint copies the same pages again. SQLITE_IOERR_TRUNCATE occurs only there, before the sync. So nothing is
 *   lost, whichever error it was, and the next write may be tried.
 * - SQLITE_IOERR_SHMSIZE, no room for the WAL's index: COMMIT grows the index after the batch is written and synced.
 *   See leftByCommit.
 * - SQLITE_IOERR_FSYNC: the kernel may drop what it could not write and report the next sync as done. What was
 *   acknowledged later would stand on that (measured with injected faults: the second commit "succeeds").
 * - All others say that the file or the memory cannot be trusted.
 */
const NOT_TAKEN = /^SQLITE_(FULL|IOERR_(WRITE|TRUNCATE|SHMSIZE))/;
const BUSY = /^SQLITE_(BUSY|LOCKED)/;
const FATAL = /^SQLITE_(IOERR|CORRUPT|NOTADB|CANTOPEN|READONLY|NOMEM|PROTOCOL|AUTH|PERM)/;

/** True for an error that concerns the whole batch, not the one operation that met it. */
export function isBatchError(error: unknown): boolean {
  const code = sqliteCodeOf(error);
  return NOT_TAKEN.test(code) || BUSY.test(code) || FATAL.test(code);
}

/** Tells what an error means that occurred before a COMMIT, or in a checkpoint. */
export function toWriteFailure(error: unknown): WriteFailure {
  const code = sqliteCodeOf(error);
  const message = `${code} ${messageOf(error)}`.trim();
  if (NOT_TAKEN.test(code)) return { kind: "full", message: `${message}${HINTS[code] ?? ""}` };
  if (BUSY.test(code)) return { kind: "busy", message };
  return { kind: "failed", message, ...(isDamage(error) ? { trouble: damage(message) } : {}) };
}

// SQLite says only "disk I/O error" for these.
const HINTS: Readonly<Record<string, string>> = {
  SQLITE_IOERR_WRITE:
    ": the file system takes no writes; a quota or a file-size limit is reached, or it is read-only",
};

/**
 * A failed COMMIT has left behind, by its error: `nothing`; a whole batch `on disk`, which this process has undone and
 * the next start would find; or `unknown`.
 */
export function leftByCommit(error: unknown): "nothing" | "on disk" | "unknown" {
  const code = sqliteCodeOf(error);
  if (code === "SQLITE_IOERR_SHMSIZE") return "on disk";
  // A COMMIT that is busy is refused before it writes.
  return NOT_TAKEN.test(code) || BUSY.test(code) ? "nothing" : "unknown";
}
