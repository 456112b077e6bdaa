import type Database from "better-sqlite3";

import { accountWrites } from "./accounts.ts";
import { codeOf, type Connection } from "./connection.ts";
import { deliveryWrites } from "./deliveries.ts";
import { taskWrites } from "./tasks.ts";
import { upkeepWrites } from "./upkeep.ts";

/** Every write there is, by name: what an operation may ask for. */
export type Writes = ReturnType<typeof accountWrites> &
  ReturnType<typeof taskWrites> &
  ReturnType<typeof deliveryWrites> &
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
  | { readonly kind: "committed"; readonly replies: readonly OperationReply[] }
  /** Nothing was written; the same batch may succeed later. */
  | { readonly kind: "full" | "busy"; readonly message: string }
  /** Nothing may be written any more: see {@link BatchRunner}. */
  | { readonly kind: "failed"; readonly message: string };

// After one of these nothing that SQLite says about this file can be trusted: a commit after a failed fsync is
// acknowledged although it may not be on disk (measured with injected faults: the second commit "succeeds").
const FATAL = /^SQLITE_(IOERR|CORRUPT|NOTADB|CANTOPEN|READONLY|NOMEM|PROTOCOL|AUTH|PERM)/;
const FULL = /^SQLITE_FULL/;
const BUSY = /^SQLITE_(BUSY|LOCKED)/;

// SQLite's own default. Each checkpoint costs milliseconds, which every batch behind it waits.
const CHECKPOINT_PAGES = 1000;

interface WalState {
  readonly log: number;
  readonly checkpointed: number;
}

/**
 * Runs batches of operations: one transaction for a batch, one savepoint for each operation in it, so that
 * an operation that fails takes none of its neighbours along. After an I/O error it refuses everything
 * for good.
 */
export class BatchRunner {
  readonly #connection: Connection;
  readonly #writes: Writes;
  readonly #control: Record<
    "begin" | "commit" | "savepoint" | "release" | "undo",
    Database.Statement
  >;
  readonly #walState: Database.Statement<[], WalState>;
  #failure: BatchReply | null = null;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#writes = {
      ...accountWrites(connection),
      ...taskWrites(connection),
      ...deliveryWrites(connection),
      ...upkeepWrites(connection),
    };
    this.#walState = connection.prepare("PRAGMA wal_checkpoint(NOOP)");
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
      this.#control.begin.run();
      const replies = operations.map((operation) => this.#runOne(operation));
      this.#control.commit.run();
      this.#checkpoint();
      return { kind: "committed", replies };
    } catch (error) {
      const reply = toBatchReply(error);
      if (reply.kind === "failed") this.#failure = reply;
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
      if (wal === undefined || wal.log - wal.checkpointed < CHECKPOINT_PAGES) return;
      this.#connection.pragma("wal_checkpoint(PASSIVE)");
    } catch (error) {
      const reply = toBatchReply(error);
      // A disk that is full, or a reader in the way: a later checkpoint does it.
      if (reply.kind === "failed") this.#failure = reply;
    }
  }

  #runOne({ name, args }: Operation): OperationReply {
    // Arguments were checked where the operation was made: GroupCommit.submit ties each name to its own.
    const write = this.#writes[name] as (args: unknown) => unknown;
    this.#control.savepoint.run();
    try {
      const value = write(args);
      this.#control.release.run();
      return { kind: "done", value };
    } catch (error) {
      if (isBatchError(error) || !this.#connection.inTransaction) throw error;
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
