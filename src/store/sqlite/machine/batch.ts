import type Database from "better-sqlite3";

import { messageOf } from "../../../domain/error.ts";
import type { BatchFailure, BatchReply, Operation, Rejection } from "../../common/batch.ts";
import { type FileTrouble, damage } from "../../store-error.ts";
import { type Connection, isDamage, sqliteCodeOf } from "./connection.ts";

/** The work that operations do. */
export interface BatchWork {
  /** Every write there is, by name. Each runs inside the transaction of its batch. */
  readonly writes: Readonly<Record<string, (args: never) => unknown>>;
  readonly changes: GatheredWork;
}

/** The changes that operations report while they run, to be written once for their batch. */
export interface GatheredWork {
  /** The accounts that the batch changed. */
  readonly changed: Set<number>;
  /** Writes the changes: in the batch's transaction, as the last thing before its COMMIT. */
  write(): void;
  /** The batch was undone. */
  reset(): void;
}

// SQLite's own default. Each checkpoint takes milliseconds, for which every later batch waits.
const CHECKPOINT_PAGES = 1000;
const OPTIONS: Required<BatchRunnerOptions> = {
  // 64 MiB, as journal_size_limit. The WAL restarts only when no connection reads from it. Lists read one after the
  // other leave no such moment: it grew by 8 MB per second (measured). Beyond this size the writer waits for readers.
  walPagesMax: 16_384,
  // As long as two of the longest lists. Another process may read for hours; a longer wait for it would be in vain.
  readersWaitMs: 2000,
  fileTrouble: () => null,
};
// SQLite waits for a reader's slot, not for the reader, and the next list takes the same slot again. That list is no
// longer in the way, but only a new try sees that.
const RESTART_TRY_MS = 100;

/** The answer of `PRAGMA wal_checkpoint`: the WAL's pages, and how many of them are in the file. */
type WalState = readonly [isBusy: number, pages: number, checkpointed: number];

type Outcome = Pick<Extract<BatchReply, { kind: "committed" }>, "values" | "rejected">;

export interface BatchRunnerOptions {
  /** Beyond this size the writer waits for those who read from the WAL, */
  readonly walPagesMax?: number;
  /** and at most for so long. */
  readonly readersWaitMs?: number;
  /** Called before the WAL is copied into the file: checks that it is still the opened file. */
  readonly fileTrouble?: () => FileTrouble | null;
}

/**
 * Runs batches of operations, one transaction for each batch. When an operation fails, the batch is undone and run
 * again without it. So a write may run more than once, and must leave nothing behind outside the database. After an
 * error that may have lost something, everything is refused permanently; see `isBatchError` and `toWriteFailure`.
 */
export class BatchRunner {
  readonly #connection: Connection;
  readonly #writes: BatchWork["writes"];
  readonly #changes: GatheredWork;
  readonly #begin: Database.Statement;
  readonly #commit: Database.Statement;
  readonly #walState: Database.Statement<[], WalState>;
  readonly #options: Required<BatchRunnerOptions>;
  readonly #schemaVersion: number;
  readonly #walCut: WalCut;
  // The next commit may restart the WAL. It therefore increments the change counter, which identifies the file of a
  // WAL.
  #isMarkDue = true;
  #restartAt: number;
  /** The number of pages in the WAL after the last batch. */
  #walPages = 0;
  /** How many of them were in the file, and since when a reader has kept the rest out, by the monotonic clock. */
  #checkpointed = 0;
  #heldSince = 0;
  #failure: BatchFailure | null = null;

  constructor(
    connection: Connection,
    { writes, changes }: BatchWork,
    options?: BatchRunnerOptions,
  ) {
    this.#connection = connection;
    this.#options = { ...OPTIONS, ...options };
    this.#schemaVersion = Number(connection.pragma("user_version", { simple: true }));
    this.#restartAt = this.#options.walPagesMax;
    this.#walCut = new WalCut(connection, this.#options.walPagesMax);
    this.#changes = changes;
    this.#writes = writes;
    // SQLite compiles a pragma anew each time, and better-sqlite3 then compiles the code that makes an object of its
    // row: raw rows save 3 % of this thread's time (measured).
    this.#walState = connection.prepare<[], WalState>("PRAGMA wal_checkpoint(NOOP)").raw();
    // IMMEDIATE: a transaction that reads first and then meets another connection's commit cannot go on.
    this.#begin = connection.prepare("BEGIN IMMEDIATE");
    this.#commit = connection.prepare("COMMIT");
  }

  run(operations: readonly Operation[]): BatchReply {
    if (this.#failure !== null) return this.#failure;
    let outcome: Outcome;
    try {
      if (this.#isMarkDue) this.#readHeaderAnew();
      outcome = this.#runAll(operations);
      this.#changes.write();
      if (this.#isMarkDue) this.#writeHeader();
    } catch (error) {
      this.#undo();
      return this.#refuse(toWriteFailure(error));
    }
    try {
      this.#commit.run();
    } catch (error) {
      this.#undo();
      return this.#refuse(this.#afterFailedCommit(error));
    }
    this.#isMarkDue = false;
    const changed = [...this.#changes.changed];
    this.#changes.changed.clear();
    const pagesBefore = this.#walPages;
    const trouble = this.#checkpoint();
    if (trouble !== null) {
      // It is committed to a file that is gone, and is back if that file is put back.
      return this.#refuse({ kind: "unknown", message: trouble.reason, trouble });
    }
    const hasWritten = this.#walPages !== pagesBefore;
    return { kind: "committed", ...outcome, changed, hasWritten };
  }

  #refuse(reply: Exclude<BatchReply, { kind: "committed" }>): BatchReply {
    if (reply.kind === "failed" || reply.kind === "unknown") {
      this.#failure ??= { ...reply, kind: "failed" };
    }
    return reply;
  }

  #undo(): void {
    this.#changes.reset();
    this.#rollBack();
  }

  /** Decides how a batch ended whose COMMIT failed. This process has undone it. */
  #afterFailedCommit(error: unknown): Exclude<BatchReply, { kind: "committed" }> {
    const failure = toWriteFailure(error);
    const left = leftByCommit(error);
    if (left === "nothing" || (left === "on disk" && this.#isOverwritten())) return failure;
    return { ...failure, kind: "unknown" };
  }

  // The frames of a batch no longer form a batch when another commit has taken the place of the first of them.
  #isOverwritten(): boolean {
    try {
      this.#begin.run();
      this.#writeHeader();
      this.#commit.run();
      return true;
    } catch {
      this.#rollBack();
      return false;
    }
  }

  /**
   * Copies the WAL into the database file once it has grown. SQLite's automatic checkpoint runs inside COMMIT and hides
   * its errors: after a failed fsync of the database file the next one "succeeds", and the WAL, by then the only good
   * copy, is overwritten. Here such an error stops all further writes; the batch before it stays committed. Does not
   * copy to a file that is not the opened file any more, and returns what was done to it.
   */
  #checkpoint(): FileTrouble | null {
    try {
      const wal = this.#walState.get();
      if (wal === undefined) return null;
      const [, pages, checkpointed] = wal;
      const hasRestarted = pages < this.#walPages;
      // The whole WAL is in the file, or another process restarted it.
      if (pages === checkpointed || hasRestarted) this.#isMarkDue = true;
      this.#walPages = pages;
      this.#walCut.note(pages, hasRestarted);
      if (pages < this.#options.walPagesMax) this.#restartAt = this.#options.walPagesMax;
      this.#noteHeld(pages, checkpointed);
      const isFull = pages >= this.#restartAt;
      if (!isFull && pages - checkpointed < CHECKPOINT_PAGES) return null;
      const trouble = this.#options.fileTrouble();
      if (trouble !== null) return trouble;
      if (isFull) this.#restartWal(pages);
      else this.#connection.pragma("wal_checkpoint(PASSIVE)");
      this.#isMarkDue = true;
    } catch (error) {
      const failure = toWriteFailure(error);
      // The disk is full, or a reader is in the way: a later checkpoint does it.
      if (failure.kind === "failed") this.#failure = { ...failure, kind: "failed" };
    }
    return null;
  }

  // Notes whether the last checkpoint got any further.
  #noteHeld(pages: number, checkpointed: number): void {
    const isHeld = checkpointed === this.#checkpointed && pages - checkpointed >= CHECKPOINT_PAGES;
    if (!isHeld) this.#heldSince = performance.now();
    this.#checkpointed = checkpointed;
  }

  // Makes the next batch restart the WAL. When a reader does not end in time, the next try comes when the WAL has
  // doubled.
  #restartWal(pages: number): void {
    // A read that has taken so long already, such as a backup's, takes longer: the wait would be in vain. Short reads,
    // one after the other, let some more pages into the file each time.
    const now = performance.now();
    if (now - this.#heldSince > this.#options.readersWaitMs) {
      this.#restartAt = 2 * pages;
      this.#connection.pragma("wal_checkpoint(PASSIVE)");
      return;
    }
    const before = Number(this.#connection.pragma("busy_timeout", { simple: true }));
    const deadline = now + this.#options.readersWaitMs;
    this.#connection.pragma(`busy_timeout = ${RESTART_TRY_MS}`);
    try {
      let isBusy = true;
      while (isBusy && performance.now() < deadline) {
        // The first column is 1 when a reader was in the way.
        isBusy = this.#connection.pragma("wal_checkpoint(RESTART)", { simple: true }) !== 0;
      }
      this.#restartAt = isBusy ? 2 * pages : this.#options.walPagesMax;
    } finally {
      this.#connection.pragma(`busy_timeout = ${before}`);
    }
  }

  // A savepoint for each operation would undo it alone, but each would copy every page that it changes: 3–5 µs of the
  // 30 that a post costs here (measured). Only a bug makes an operation fail; a batch in which k fail runs k + 1 times.
  #runAll(operations: readonly Operation[]): Outcome {
    const rejected = new Map<number, Rejection>();
    for (;;) {
      this.#begin.run();
      const values: unknown[] = [];
      try {
        for (const operation of operations) {
          values.push(rejected.has(values.length) ? undefined : this.#write(operation));
        }
        return { values, rejected: [...rejected.values()] };
      } catch (error) {
        if (isBatchError(error) || !this.#connection.inTransaction) throw error;
        const index = values.length;
        rejected.set(index, { index, message: messageOf(error) });
        this.#undo();
      }
    }
  }

  // SQLite counts changes from the counter in the copy of page 1 that this connection read last, which its own commits
  // do not update. A page that was changed is read again when the change is undone.
  #readHeaderAnew(): void {
    this.#begin.run();
    this.#writeHeader();
    this.#connection.exec("ROLLBACK");
  }

  // Writes the same version again. That puts page 1, with its change counter, into the WAL.
  #writeHeader(): void {
    this.#connection.pragma(`user_version = ${this.#schemaVersion}`);
  }

  #write({ name, args }: Operation): unknown {
    // GroupCommit.submit ties each name to its own arguments, so they were checked where the operation was made.
    const write = this.#writes[name] as ((args: unknown) => unknown) | undefined;
    if (write === undefined) throw new Error(`unknown write ${name}`);
    return write(args);
  }

  #rollBack(): void {
    // SQLite rolls back by itself on some errors.
    if (!this.#connection.inTransaction) return;
    try {
      this.#connection.exec("ROLLBACK");
    } catch (error) {
      // A transaction that cannot be ended would swallow everything that is written next.
      this.#failure ??= { kind: "failed", message: messageOf(error) };
    }
  }
}

const PAGE_BYTES = 4096;
// 8 MiB, as where old backups are removed: see `removeGradually`.
const CUT_PAGES = 2048;

/**
 * Cuts a WAL that has grown back to its size in steps, one each time that it begins again. SQLite cuts it in the commit
 * that restarts it, and all the batches wait for that: after a backup of 890 MB, in memory, 10 to 19 ms for 80 MB.
 */
class WalCut {
  readonly #connection: Connection;
  readonly #pagesMin: number;
  /** The pages that the file has room for, and those that its next restart leaves. */
  #filePages = 0;
  #keptPages: number;

  /** Of the connection that writes. A WAL of `pagesMin` pages keeps its size. */
  constructor(connection: Connection, pagesMin: number) {
    this.#connection = connection;
    this.#pagesMin = pagesMin;
    this.#keptPages = pagesMin;
  }

  /**
   * Called after each batch with the number of pages of the WAL, and whether it has restarted since the previous batch.
   */
  note(pages: number, hasRestarted: boolean): void {
    if (hasRestarted) this.#filePages = Math.min(this.#filePages, this.#keptPages);
    this.#filePages = Math.max(this.#filePages, pages);
    const whole = CUT_PAGES * Math.floor((this.#filePages - 1) / CUT_PAGES);
    const kept = Math.max(this.#pagesMin, whole);
    if (kept === this.#keptPages) return;
    this.#keptPages = kept;
    this.#connection.pragma(`journal_size_limit = ${kept * PAGE_BYTES}`);
  }
}

/** Why SQLite could not write: the write has not happened; and what may be tried next. */
interface WriteFailure {
  /** After `full` and `busy` the same write may succeed later; after `failed` nothing may be written any more. */
  readonly kind: "full" | "busy" | "failed";
  readonly message: string;
  /** Set when the file itself is at fault. */
  readonly trouble?: FileTrouble;
}

/**
 * The effect of an SQLite error on the data (from SQLite's source, tried with each error):
 *
 * - A write that was not taken: SQLITE_FULL for ENOSPC, SQLITE_IOERR_WRITE for every other error, such as EDQUOT, EFBIG
 *   and EROFS; it does not say which. A write() that fails takes none of its bytes. In a COMMIT the frame that makes
 *   the batch valid, or its checksum, is written last: with any write refused the batch is undone, for every reader and
 *   for the recovery at the next start. Earlier commits were synced by themselves. In a checkpoint the WAL counts as
 *   copied only after the database file is written and synced: until then it stays the good copy, and the next
 *   checkpoint copies the same pages again. SQLITE_IOERR_TRUNCATE occurs only there, before the sync. So nothing is
 *   lost, whichever error it was, and the next write may be tried.
 * - SQLITE_IOERR_SHMSIZE, no room for the WAL's index: COMMIT grows the index after the batch is written and synced.
 *   See leftByCommit.
 * - SQLITE_IOERR_FSYNC: the kernel may drop what it could not write and report the next sync as done. Later
 *   acknowledgements would depend on it (measured with injected faults: the second commit "succeeds").
 * - All others say that the file or the memory cannot be trusted.
 */
const NOT_TAKEN = /^SQLITE_(FULL|IOERR_(WRITE|TRUNCATE|SHMSIZE))/;
const BUSY = /^SQLITE_(BUSY|LOCKED)/;
const FATAL = /^SQLITE_(IOERR|CORRUPT|NOTADB|CANTOPEN|READONLY|NOMEM|PROTOCOL|AUTH|PERM)/;

/** True for an error that concerns the whole batch, not the one operation that met it. */
function isBatchError(error: unknown): boolean {
  const code = sqliteCodeOf(error);
  return NOT_TAKEN.test(code) || BUSY.test(code) || FATAL.test(code);
}

/** Classifies an error that occurred before a COMMIT, or in a checkpoint. */
function toWriteFailure(error: unknown): WriteFailure {
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
function leftByCommit(error: unknown): "nothing" | "on disk" | "unknown" {
  const code = sqliteCodeOf(error);
  if (code === "SQLITE_IOERR_SHMSIZE") return "on disk";
  // A COMMIT that is busy is refused before it writes.
  return NOT_TAKEN.test(code) || BUSY.test(code) ? "nothing" : "unknown";
}
