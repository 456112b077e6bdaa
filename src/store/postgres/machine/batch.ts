import { messageOf } from "../../../domain/error.ts";
import type { BatchReply, Operation, Rejection } from "../../common/batch.ts";
import { ConnectionLost, sqlStateOf, type Connection } from "./connection.ts";
import type { BatchSql, SqlValue } from "./sql.ts";

/** A write: takes the arguments of all its operations in a batch, and answers a value for each, in their order. */
export type SetWrite = (list: readonly never[]) => Promise<readonly unknown[]>;

/** The work of operations, on one connection. */
export interface BatchWork {
  /** Every write there is, by name. Each runs inside the transaction of its batch. */
  readonly writes: Readonly<Record<string, SetWrite>>;
  /** Sends a lock of what several of these operations would lock one after the other, before any of them runs. */
  lock(operations: readonly Operation[]): void;
  /** The place of a write among those of its batch; those of one place run in the order of their names. */
  placeOf(name: string): number;
  readonly changes: GatheredWork;
}

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

/** This life of the node is over: its stripes are no longer its own, so nothing of it is written any more. */
export class Fenced extends Error {
  override readonly name = "Fenced" as const;
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

/** A row that an operation of the batch needs is held by somebody else for longer than others should wait. */
export class RowsLocked extends Error {
  override readonly name = "RowsLocked" as const;
  override readonly message = "another process holds a row that it needs";
}

/** The connection was lost while the batch was being committed. Its transaction's id tells how it ended. */
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

// The stripe's row is locked by every batch: whoever comes after waits until this transaction has ended, whatever became
// of its connection. Locking writes no new version of the row. The id is asked for here, because after the COMMIT was
// sent it is too late. That the COMMIT waits for the disk, and for standbys, is said of this transaction by itself: a
// pooler that hands connections out by transaction may have given it one whose session was told otherwise. How long it
// waits for a row is said here too.
const FENCE = `
  SELECT pg_current_xact_id()::text AS xid, set_config('lock_timeout', $3, true), set_config('synchronous_commit',
    CASE WHEN current_setting('synchronous_commit') = 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)
  FROM stripes WHERE stripe = $1 AND node_seq = $2 FOR UPDATE`;

// A server that was promoted before it had got the transaction may not have come to its id yet, and would refuse to tell.
const FIND_STATUS = `
  SELECT CASE WHEN $1::text::xid8 < pg_snapshot_xmax(pg_current_snapshot()) THEN pg_xact_status($1::text::xid8) END
    AS status`;

// A server whose standby does not answer may be told to wait no longer: the commit is then on this server alone.
const NOT_REPLICATED = "01000";

/** A transaction of which nobody knows how it ended. */
export interface Doubt {
  readonly xid: string;
  /** Who locked its stripe last, as it was found first; null before somebody has looked. */
  locker: Partial<LockerRow> | null;
}

interface LockerRow {
  readonly xid: string;
}

// A server that crashed gives the ids of those transactions again that had not reached its disk, so one that committed
// may be somebody else's. But what the last lock of the row left in it is on disk when its transaction is.
const FIND_LOCKER = "SELECT xmax::text AS xid FROM stripes WHERE stripe = $1 AND node_seq = $2";

/** False when the transaction has never locked its stripe; true also when the row does not tell any more. */
function mayBeLocker(xid: string, locker: Partial<LockerRow>): boolean {
  // The row holds the lower half of an id.
  const lower = String(BigInt.asUintN(32, BigInt(xid)));
  return locker.xid === undefined || locker.xid === "0" || locker.xid === lower;
}

/** The statements of the batch under way on a connection. */
export class BatchStatements implements BatchSql {
  readonly stripe: number;
  readonly nodeSeq: number;
  readonly nextSeq: () => number;
  readonly #connection: Connection;
  #sent: Promise<unknown>[] = [];

  constructor(connection: Connection, node: Pick<BatchSql, "stripe" | "nodeSeq" | "nextSeq">) {
    this.#connection = connection;
    this.stripe = node.stripe;
    this.nodeSeq = node.nodeSeq;
    this.nextSeq = node.nextSeq;
  }

  all<Row>(text: string, values?: readonly SqlValue[]): Promise<readonly Row[]> {
    return this.#connection.all(text, values);
  }

  get<Row>(text: string, values?: readonly SqlValue[]): Promise<Row | undefined> {
    return this.#connection.get(text, values);
  }

  run(text: string, values?: readonly SqlValue[]): Promise<number> {
    return this.#connection.run(text, values);
  }

  send(text: string, values?: readonly SqlValue[]): void {
    const sent = this.#connection.run(text, values);
    // It is awaited with the COMMIT, which comes later than its failure.
    sent.catch(() => {});
    this.#sent.push(sent);
  }

  /** The batch was undone. */
  forget(): void {
    this.#sent = [];
  }

  /** The statements that were sent and are not known to have succeeded. */
  takeSent(): readonly Promise<unknown>[] {
    return this.#sent.splice(0);
  }
}

/** The writes of a connection, and what is needed to run batches of them. */
export interface RunnerParts {
  readonly connection: Connection;
  readonly statements: BatchStatements;
  readonly work: BatchWork;
  /** A transaction of this id has committed. */
  readonly committed: (xid: string) => void;
}

/**
 * Runs batches on one connection, one transaction for each. The operations of a batch were all asked for before any of
 * them was answered, so they may run in any order: those of one name run together, as sets, and the names have one order.
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

  constructor({ connection, statements, work, committed }: RunnerParts) {
    this.#committed = committed;
    this.#connection = connection;
    this.#statements = statements;
    this.#work = work;
    connection.onNotice((sqlState) => {
      if (sqlState === NOT_REPLICATED) this.#isReplicated = false;
    });
  }

  /**
   * Rejects with {@link ConnectionLost} when nothing of the batch was written, with {@link InDoubt} when nobody knows,
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

  /** Tells whether a transaction of this stripe has committed that is under way no more. */
  async hasCommitted(doubt: Doubt): Promise<boolean> {
    const { stripe, nodeSeq } = this.#statements;
    // To be answered before the row is locked again.
    doubt.locker ??= (await this.#connection.get<LockerRow>(FIND_LOCKER, [stripe, nodeSeq])) ?? {};
    await this.#connection.command("BEGIN");
    try {
      // Waits until the transaction in doubt has ended. The COMMIT below waits for the standbys, which then have both.
      const row = await this.#connection.get(FENCE, [stripe, nodeSeq, String(SETTLE_LOCK_MS)]);
      const isCommitted = await this.#isCommitted(doubt.xid);
      await this.#connection.command("COMMIT");
      // Who takes the stripe away locks the row too, after the transaction: then only its status is left to go by.
      const mayBeIts = row === undefined || mayBeLocker(doubt.xid, doubt.locker);
      if (isCommitted && mayBeIts) {
        this.#committed(doubt.xid);
        return true;
      }
      if (row === undefined) throw new Fenced();
      return false;
    } catch (error) {
      if (sqlStateOf(error) !== "") await this.#connection.command("ROLLBACK");
      throw error;
    }
  }

  async #isCommitted(xid: string): Promise<boolean> {
    const known = await this.#connection.get<{ status: string | null }>(FIND_STATUS, [xid]);
    return known?.status === "committed";
  }

  async #transact(operations: readonly Operation[], lockMs: number): Promise<BatchReply> {
    const { stripe, nodeSeq } = this.#statements;
    this.#hasStripe = false;
    const begun = this.#connection.command("BEGIN");
    const fence = this.#connection.get<{ xid: string }>(FENCE, [stripe, nodeSeq, String(lockMs)]);
    // Their failures are those of the statements after them too.
    begun.catch(() => {});
    fence.then(
      () => (this.#hasStripe = true),
      () => {},
    );
    this.#work.lock(operations);
    const values = await this.#runSets(operations);
    const fenced = await fence;
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
    const placeOf = (name: string): number => this.#work.placeOf(name);
    const inOrder = [...byName].toSorted(([a], [b]) => placeOf(a) - placeOf(b) || (a < b ? -1 : 1));
    for (const [name, indices] of inOrder) {
      // GroupCommit.submit ties each name to its own arguments, so they were checked where the operation was made.
      const write = this.#work.writes[name] as
        | ((list: readonly unknown[]) => Promise<readonly unknown[]>)
        | undefined;
      if (write === undefined) throw new Error(`there is no write ${name}`);
      const answers = await write(indices.map((i) => operations[i]?.args));
      indices.forEach((index, i) => (values[index] = answers[i]));
    }
    return values;
  }

  async #commit(xid: string, reply: BatchReply): Promise<void> {
    this.#isReplicated = true;
    const sent = this.#statements.takeSent();
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
    this.#statements.forget();
    this.#work.changes.reset();
    await this.#connection.command("ROLLBACK");
  }
}

const NOT_UNLOCKED = "55P03";

// A transaction in doubt may hold its stripe for longer; then it is asked for again.
const SETTLE_LOCK_MS = 4000;

// Deadlocks and serialization failures, a disk that is full or fails, a statement that somebody broke off, a server that
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
