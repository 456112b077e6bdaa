import { messageOf } from "../../../domain/error.ts";
import type { BatchReply, Operation, Rejection } from "../../common/batch.ts";
import { Fenced, type Stripe, fence } from "./commits.ts";
import { ConnectionLost, sqlStateOf, type Connection } from "./connection.ts";
import type { BatchSql, SqlValue } from "./sql.ts";

/** A write: takes the arguments of all its operations in a batch, and returns a value for each, in their order. */
export type SetWrite = (list: readonly never[]) => Promise<readonly unknown[]>;

/** The work of operations, on one connection. */
export interface BatchWork {
  /** Every write there is, by name. Each runs inside the transaction of its batch. */
  readonly writes: Readonly<Record<string, SetWrite>>;
  /** Locks the rows that several operations of the batch would lock one after the other, before any operation runs. */
  lock(operations: readonly Operation[]): void;
  /** The position of a write in its batch; writes of the same position run in the order of their names. */
  readonly placeOf: (name: string) => number;
  readonly changes: GatheredWork;
}

/** Stands for an operation that its client has given up: nothing is written for it. */
export const GIVEN_UP: Operation = { name: "", args: undefined };

/** Makes the writes of a connection. */
export type NewWork = (statements: BatchSql) => BatchWork;

/** The changes that operations report while they run, to be written once for their batch. */
export interface GatheredWork {
  /** The accounts that the batch changed. */
  readonly changed: Set<number>;
  /** Sends the changes, as the last thing before the batch's COMMIT. */
  send(): void;
  /** The batch has committed. */
  committed(): void;
  /** The batch was undone. */
  reset(): void;
}

/** Another node changed a row after a write had read it: the batch is run again. */
export class RunAgain extends Error {
  override readonly name = "RunAgain" as const;
  override readonly message = "other nodes changed what it needs";
}

/** An operation of the batch failed, and nothing of it was written: they are to be run one by one. */
export class OneByOne extends Error {
  override readonly name = "OneByOne" as const;
}

/** A row that an operation of the batch needs is locked by another transaction for longer than others should wait. */
export class RowsLocked extends Error {
  override readonly name = "RowsLocked" as const;
  override readonly message = "another process holds a row that it needs";
}

/** The connection was lost while the batch was being committed. The id of its transaction shows how it ended. */
export class InDoubt extends Error {
  override readonly name = "InDoubt" as const;
  readonly xid: string;
  readonly reply: BatchReply;
  constructor(xid: string, reply: BatchReply, options: ErrorOptions) {
    super("the connection was lost during a commit", options);
    this.xid = xid;
    this.reply = reply;
  }
}

// PostgreSQL may stop waiting for a standby that does not respond: the commit is then on the primary alone.
const NOT_REPLICATED = "01000";

/** The statements of the batch under way on a connection. */
class BatchStatements implements BatchSql {
  readonly stripe: number;
  readonly nodeSeq: number;
  readonly nextSeq: () => number;
  readonly all: Connection["all"];
  readonly get: Connection["get"];
  readonly run: Connection["run"];
  /** The statements that were sent and are not known to have succeeded. */
  sent: Promise<unknown>[] = [];

  constructor({ connection, stripe, nodeSeq, nextSeq }: RunnerParts) {
    this.stripe = stripe;
    this.nodeSeq = nodeSeq;
    this.nextSeq = nextSeq;
    this.all = connection.all.bind(connection);
    this.get = connection.get.bind(connection);
    this.run = connection.run.bind(connection);
  }

  send(text: string, values?: readonly SqlValue[]): void {
    const sent = this.run(text, values);
    // It is awaited with the COMMIT, which comes later than its failure.
    sent.catch(() => {});
    this.sent.push(sent);
  }
}

/** A connection with the stripe that its batches belong to. */
export interface RunnerParts extends Stripe {
  readonly connection: Connection;
  readonly nextSeq: () => number;
  readonly newWork: NewWork;
  /** A transaction of this id has committed. */
  readonly committed: (xid: string) => void;
}

/**
 * Runs batches on one connection, one transaction for each. The operations of a batch were all submitted before any of
 * them got its value, so they may run in any order: those of one name run together, as sets, and the names have one order.
 * When an operation fails, the batch is undone.
 */
export class BatchRunner {
  readonly #connection: Connection;
  readonly #statements: BatchStatements;
  readonly #work: BatchWork;
  readonly #committed: RunnerParts["committed"];
  #isReplicated = true;
  /** True once the batch under way has locked its stripe. */
  #hasStripe = false;

  constructor(parts: RunnerParts) {
    this.#connection = parts.connection;
    this.#committed = parts.committed;
    this.#statements = new BatchStatements(parts);
    this.#work = parts.newWork(this.#statements);
    parts.connection.onNotice((sqlState) => {
      if (sqlState === NOT_REPLICATED) this.#isReplicated = false;
    });
  }

  /**
   * Rejects with {@link ConnectionLost} when nothing of the batch was written, with {@link InDoubt} when that is unknown,
   * with {@link OneByOne}, with {@link Fenced}, with {@link RunAgain}, with {@link RowsLocked} when it would have to wait
   * longer than `lockMs` for a row, or with an error of the server that a later try may not meet.
   */
  async run(operations: readonly Operation[], lockMs: number): Promise<BatchReply> {
    try {
      return await this.#transact(operations, lockMs);
    } catch (error) {
      if (error instanceof ConnectionLost || error instanceof InDoubt) throw error;
      await this.#undo();
      if (this.#hasStripe && sqlStateOf(error) === NOT_UNLOCKED) throw new RowsLocked();
      if (error instanceof Fenced || isConflict(error) || isPassing(error)) throw error;
      if (operations.length > 1) throw new OneByOne();
      return committed([undefined], [{ index: 0, message: messageOf(error) }], []);
    }
  }

  async #transact(operations: readonly Operation[], lockMs: number): Promise<BatchReply> {
    this.#hasStripe = false;
    const begun = this.#connection.command("BEGIN");
    const locked = fence(this.#connection, this.#statements, lockMs);
    // A failure of one also fails the statements after it.
    begun.catch(() => {});
    locked.then(
      () => (this.#hasStripe = true),
      () => {},
    );
    this.#work.lock(operations);
    const values = await this.#runSets(operations);
    const fenced = await locked;
    if (fenced === undefined) throw new Fenced();
    this.#work.changes.send();
    const changed = [...this.#work.changes.changed];
    this.#work.changes.changed.clear();
    const reply = committed(values, [], changed);
    await this.#commit(fenced.xid, reply);
    this.#work.changes.committed();
    return reply;
  }

  async #runSets(operations: readonly Operation[]): Promise<readonly unknown[]> {
    const values: unknown[] = Array.from({ length: operations.length });
    const byName = Map.groupBy(operations.keys(), (i) => operations[i]?.name ?? "");
    // One order in all batches: what several of them lock they lock in it, and none waits for another in a circle.
    const { placeOf, writes } = this.#work;
    const inOrder = [...byName].toSorted(([a], [b]) => placeOf(a) - placeOf(b) || (a < b ? -1 : 1));
    for (const [name, indices] of inOrder) {
      if (name === GIVEN_UP.name) continue;
      // GroupCommit.submit ties each name to its own arguments, so they were checked where the operation was made.
      const write = writes[name] as
        | ((list: readonly unknown[]) => ReturnType<SetWrite>)
        | undefined;
      if (write === undefined) throw new Error(`unknown write ${name}`);
      const answers = await write(indices.map((i) => operations[i]?.args));
      indices.forEach((index, i) => (values[index] = answers[i]));
    }
    return values;
  }

  async #commit(xid: string, reply: BatchReply): Promise<void> {
    this.#isReplicated = true;
    const sent = this.#statements.sent.splice(0);
    const commit = this.#connection.command("COMMIT");
    const [ended, ...others] = await Promise.allSettled([commit, ...sent]);
    if (ended.status === "rejected" && ended.reason instanceof ConnectionLost) {
      throw new InDoubt(xid, reply, { cause: ended.reason });
    }
    const failed = others.find((each) => each.status === "rejected");
    if (failed !== undefined) throw failed.reason;
    if (ended.status === "rejected") throw ended.reason;
    // After a failed statement a COMMIT succeeds, and has rolled back.
    if (ended.value !== "COMMIT") throw new Error("the transaction was rolled back");
    if (this.#isReplicated) {
      this.#committed(xid);
      return;
    }
    this.#connection.destroy("a commit was not replicated");
    throw new InDoubt(xid, reply, { cause: new Error("a commit was not replicated") });
  }

  async #undo(): Promise<void> {
    this.#statements.sent = [];
    this.#work.changes.reset();
    await this.#connection.command("ROLLBACK");
  }
}

const NOT_UNLOCKED = "55P03";

// Deadlocks and serialization failures, a disk that is full or fails, a cancelled statement, a server that
// shuts down, starts or is read-only.
const PASSING = /^(40\w{3}|53\w{3}|57014|57P0\d|58030|25006|55P03)$/;

/** True for an error of the server that the same batch may not meet when it is run again. */
export function isPassing(error: unknown): boolean {
  return PASSING.test(sqlStateOf(error));
}

// Effects of other transactions, of the operator or of a memory limit on one transaction.
const CONFLICT = /^(40\w{3}|55P03|57014|53200|53400)$/;

/** True for an error that may belong to this batch alone, however often it is run. */
export function isConflict(error: unknown): boolean {
  return error instanceof RunAgain || CONFLICT.test(sqlStateOf(error));
}

function committed(
  values: readonly unknown[],
  rejected: readonly Rejection[],
  changed: readonly number[],
): BatchReply {
  return { kind: "committed", values, rejected, changed, hasWritten: true };
}
