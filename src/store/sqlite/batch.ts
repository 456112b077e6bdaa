import type Database from "better-sqlite3";

import { accessRequestWrites } from "./access-requests.ts";
import { accountWrites } from "./accounts.ts";
import { attemptClaimWrites } from "./attempt-claims.ts";
import { attemptScheduleWrites } from "./attempt-schedule.ts";
import { GatheredChanges } from "./batch-changes.ts";
import { codeOf, type Connection } from "./connection.ts";
import { deliveryWrites } from "./deliveries.ts";
import { leaseWrites } from "./leases.ts";
import { queueSampleWrites } from "./queue-sample.ts";
import { redeliveryOrderWrites } from "./redelivery-orders.ts";
import { sessionWrites } from "./sessions.ts";
import { taskRunWrites } from "./task-runs.ts";
import { taskWrites } from "./tasks.ts";
import { trafficFoldWrites } from "./traffic.ts";
import { upkeepWrites } from "./upkeep.ts";
import { workerWrites } from "./workers.ts";

/** Every write there is, by name: what an operation may ask for. */
export type Writes = ReturnType<typeof accountWrites> &
  ReturnType<typeof accessRequestWrites> &
  ReturnType<typeof taskWrites> &
  ReturnType<typeof taskRunWrites> &
  ReturnType<typeof leaseWrites> &
  ReturnType<typeof workerWrites> &
  ReturnType<typeof sessionWrites> &
  ReturnType<typeof attemptClaimWrites> &
  ReturnType<typeof deliveryWrites> &
  ReturnType<typeof attemptScheduleWrites> &
  ReturnType<typeof redeliveryOrderWrites> &
  ReturnType<typeof queueSampleWrites> &
  ReturnType<typeof trafficFoldWrites> &
  ReturnType<typeof upkeepWrites>;

/** A write as data, so that it can cross to the writer thread. */
export interface Operation {
  readonly name: keyof Writes;
  readonly args: unknown;
}

/** How one operation of a committed batch ended. A rejected one was rolled back alone. */
export type OperationReply =
  | { readonly kind: "done"; readonly value: unknown }
  | { readonly kind: "rejected"; readonly message: string };

/** How a batch ended. Only `committed` left anything behind. */
export type BatchReply =
  | {
      readonly kind: "committed";
      readonly replies: readonly OperationReply[];
      /** The accounts whose tasks or deliveries it changed, each once. */
      readonly changed: readonly number[];
    }
  /** Nothing was written; the same batch may succeed later. */
  | { readonly kind: "full" | "busy"; readonly message: string }
  /** Nothing may be written any more: see {@link BatchRunner}. */
  | { readonly kind: "failed"; readonly message: string };

// After one of these nothing that SQLite says about this file can be trusted: a commit after a failed fsync is
// acknowledged although it may not be on disk (measured with injected faults: the second commit "succeeds").
const FATAL = /^SQLITE_(IOERR|CORRUPT|NOTADB|CANTOPEN|READONLY|NOMEM|PROTOCOL|AUTH|PERM)/;
// SHMSIZE: no room for the WAL's index, which is rebuilt from the WAL whenever it is lost (measured on a full tmpfs: the
// batch is undone, and with room again the next ones are written).
const FULL = /^SQLITE_(FULL|IOERR_SHMSIZE)/;
const BUSY = /^SQLITE_(BUSY|LOCKED)/;

// SQLite's own default. Each checkpoint costs milliseconds, which every batch behind it waits.
const CHECKPOINT_PAGES = 1000;
// 64 MiB, as journal_size_limit. The WAL begins anew only at a moment when nobody reads from it, and with lists
// read one after the other there is none: it grew by 8 MB a second (measured). From here on readers are waited for.
const WAL_PAGES_MAX = 16_384;
// Two of the longest lists. Another process may read for hours; the wait for it is in vain.
const READERS_WAIT_MS = 2000;
// SQLite waits for a reader's slot, not for the reader, and a list that follows takes the same slot again; what it
// reads is no longer in the way, but that is seen by a new try only.
const RESTART_TRY_MS = 100;

/** What `PRAGMA wal_checkpoint` answers: the WAL's pages, and how many of them are in the file. */
type WalState = readonly [isBusy: number, pages: number, checkpointed: number];

/**
 * Runs batches of operations: one transaction for a batch. When an operation in it fails, the batch is begun anew
 * with a savepoint for each, so that none takes its neighbours along: a write may be run twice, and
 * must leave nothing behind outside the database. After an I/O error everything is refused for good.
 */
export class BatchRunner {
  readonly #connection: Connection;
  readonly #writes: Writes;
  readonly #changes: GatheredChanges;
  readonly #control: Record<
    "begin" | "commit" | "savepoint" | "release" | "undo",
    Database.Statement
  >;
  readonly #walState: Database.Statement<[], WalState>;
  readonly #walPagesMax: number;
  readonly #readersWaitMs: number;
  #restartAt: number;
  #failure: BatchReply | null = null;

  /** From `walPagesMax` on, those who read from the WAL are waited for, for `readersWaitMs` at most. */
  constructor(
    connection: Connection,
    { walPagesMax = WAL_PAGES_MAX, readersWaitMs = READERS_WAIT_MS } = {},
  ) {
    this.#connection = connection;
    this.#walPagesMax = walPagesMax;
    this.#readersWaitMs = readersWaitMs;
    this.#restartAt = walPagesMax;
    this.#changes = new GatheredChanges(connection);
    this.#writes = {
      ...accountWrites(connection),
      ...accessRequestWrites(connection),
      ...taskWrites(connection, this.#changes),
      ...taskRunWrites(connection, this.#changes),
      ...leaseWrites(connection, this.#changes),
      ...workerWrites(connection),
      ...sessionWrites(connection),
      ...attemptClaimWrites(connection),
      ...deliveryWrites(connection, this.#changes),
      ...attemptScheduleWrites(connection),
      ...redeliveryOrderWrites(connection, this.#changes),
      ...queueSampleWrites(connection),
      ...trafficFoldWrites(connection),
      ...upkeepWrites(connection, this.#changes),
    };
    // SQLite compiles a pragma anew each time, and better-sqlite3 then compiles what makes an object of its row: raw
    // rows save 3 % of this thread's time (measured).
    this.#walState = connection.prepare<[], WalState>("PRAGMA wal_checkpoint(NOOP)").raw();
    this.#control = {
      // IMMEDIATE: a transaction that reads first and then finds a foreign commit cannot be continued.
      begin: connection.prepare("BEGIN IMMEDIATE"),
      commit: connection.prepare("COMMIT"),
      savepoint: connection.prepare("SAVEPOINT operation"),
      release: connection.prepare("RELEASE operation"),
      undo: connection.prepare("ROLLBACK TO operation"),
    };
  }

  run(operations: readonly Operation[]): BatchReply {
    if (this.#failure !== null) return this.#failure;
    try {
      const replies = this.#runTogether(operations) ?? this.#runApart(operations);
      const changed = this.#changes.changed.take();
      this.#checkpoint();
      return { kind: "committed", replies, changed };
    } catch (error) {
      const reply = toBatchReply(error);
      if (reply.kind === "failed") this.#failure = reply;
      this.#changes.reset();
      this.#rollBack();
      return reply;
    }
  }

  /**
   * Copies the WAL into the database file once it has grown. SQLite's automatic checkpoint runs inside COMMIT
   * and keeps its errors to itself: after a failed fsync of the database file the next one "succeeds", and
   * the WAL, by then the only good copy, is overwritten. Here such an error stops all further writes; the
   * batch before it is committed all the same.
   */
  #checkpoint(): void {
    try {
      const wal = this.#walState.get();
      if (wal === undefined) return;
      const [, pages, checkpointed] = wal;
      if (pages < this.#walPagesMax) this.#restartAt = this.#walPagesMax;
      if (pages >= this.#restartAt) this.#restartWal(pages);
      else if (pages - checkpointed >= CHECKPOINT_PAGES) {
        this.#connection.pragma("wal_checkpoint(PASSIVE)");
      }
    } catch (error) {
      const reply = toBatchReply(error);
      // A disk that is full, or a reader in the way: a later checkpoint does it.
      if (reply.kind === "failed") this.#failure = reply;
    }
  }

  // Has the next batch begin the WAL anew. When a reader does not end in time, this is tried again when the WAL is
  // twice as large.
  #restartWal(pages: number): void {
    const before = Number(this.#connection.pragma("busy_timeout", { simple: true }));
    const deadline = performance.now() + this.#readersWaitMs;
    this.#connection.pragma(`busy_timeout = ${RESTART_TRY_MS}`);
    try {
      let isBusy = true;
      while (isBusy && performance.now() < deadline) {
        // The first column: 1 when a reader was in the way.
        isBusy = this.#connection.pragma("wal_checkpoint(RESTART)", { simple: true }) !== 0;
      }
      this.#restartAt = isBusy ? 2 * pages : this.#walPagesMax;
    } finally {
      this.#connection.pragma(`busy_timeout = ${before}`);
    }
  }

  // With a savepoint each operation copies every page that it changes: 3–5 µs of the 30 that a post costs here
  // (measured), and only a bug makes an operation fail. Null when one did; then nothing was written.
  #runTogether(operations: readonly Operation[]): readonly OperationReply[] | null {
    this.#control.begin.run();
    const replies: OperationReply[] = [];
    try {
      for (const operation of operations) {
        replies.push({ kind: "done", value: this.#write(operation) });
        this.#changes.keep();
      }
    } catch (error) {
      if (isBatchError(error) || !this.#connection.inTransaction) throw error;
      this.#changes.reset();
      this.#rollBack();
      return null;
    }
    this.#commit();
    return replies;
  }

  #runApart(operations: readonly Operation[]): readonly OperationReply[] {
    this.#control.begin.run();
    const replies = operations.map((operation) => this.#runOne(operation));
    this.#commit();
    return replies;
  }

  #commit(): void {
    this.#changes.write();
    this.#control.commit.run();
  }

  #write({ name, args }: Operation): unknown {
    // Arguments were checked where the operation was made: GroupCommit.submit ties each name to its own.
    const write = this.#writes[name] as (args: unknown) => unknown;
    return write(args);
  }

  #runOne(operation: Operation): OperationReply {
    this.#control.savepoint.run();
    try {
      const value = this.#write(operation);
      this.#control.release.run();
      this.#changes.keep();
      return { kind: "done", value };
    } catch (error) {
      if (isBatchError(error) || !this.#connection.inTransaction) throw error;
      this.#changes.drop();
      this.#control.undo.run();
      this.#control.release.run();
      return { kind: "rejected", message: messageOf(error) };
    }
  }

  #rollBack(): void {
    // SQLite rolls back by itself on some errors.
    if (!this.#connection.inTransaction) return;
    try {
      this.#connection.exec("ROLLBACK");
    } catch (error) {
      // A transaction that cannot be ended would swallow whatever is written next.
      this.#failure = { kind: "failed", message: messageOf(error) };
    }
  }
}

function isBatchError(error: unknown): boolean {
  const code = codeOf(error);
  return FATAL.test(code) || FULL.test(code) || BUSY.test(code);
}

function toBatchReply(error: unknown): BatchReply {
  const code = codeOf(error);
  const message = `${code} ${messageOf(error)}`.trim();
  if (FULL.test(code)) return { kind: "full", message };
  if (BUSY.test(code)) return { kind: "busy", message };
  return { kind: "failed", message };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
