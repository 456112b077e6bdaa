import type { Clock } from "../../../domain/clock/clock.ts";
import { setTimeout } from "../../../domain/clock/timers.ts";
import { messageOf } from "../../../domain/error.ts";
import type { BatchReply, BatchTransport, Operation, Rejection } from "../../common/batch.ts";
import { StoreError } from "../../store-error.ts";
import {
  BatchRunner,
  BatchStatements,
  type BatchWork,
  type Doubt,
  Fenced,
  InDoubt,
  OneByOne,
  RowsLocked,
  isConflict,
  isPassing,
} from "./batch.ts";
import { type Connection, ConnectionLost, sqlStateOf } from "./connection.ts";
import { type LastCommits, hasLostCommits } from "./life.ts";
import type { BatchSql } from "./sql.ts";

/** The part that a writer needs of the node that it writes for. */
export interface WriterNode {
  /** Settles with the node's present life, or rejects when the store is closed. */
  life(): Promise<NodeLife>;
  /** True when another life has begun since, or is awaited. */
  isOver(life: NodeLife): boolean;
  /** A batch found out that a life is over. */
  fenced(life: NodeLife): void;
  /** The server lacks what this life was told is committed. */
  hasLost(life: NodeLife): void;
  /** Opens a connection; tries until it succeeds, or rejects when the store is closed. */
  connect(): Promise<Connection>;
}

/** A life of a node, from its joining to its end. */
export interface NodeLife extends LastCommits {
  readonly nodeSeq: number;
  readonly lastCommits: Map<number, string>;
  /** One for each writer connection. */
  readonly stripes: readonly number[];
  nextSeq(): number;
}

/** Makes the writes of a connection. */
export type NewWork = (statements: BatchSql) => BatchWork;

export interface WriterParts {
  readonly node: WriterNode;
  /** Which of the node's writers this is. */
  readonly index: number;
  readonly newWork: NewWork;
  readonly clients: ClientWaits;
  /** How long a batch waits for rows that somebody else holds: a second but in tests. */
  readonly lockMs?: number | undefined;
}

/**
 * Writes batches over one connection. Whatever happens to the connection or to the server, a batch is answered only
 * once its outcome is known: it is run again until it has committed, or until the node's life is over.
 */
export class Writer implements BatchTransport {
  readonly #node: WriterNode;
  readonly #index: number;
  readonly #newWork: NewWork;
  readonly #clients: ClientWaits;
  readonly #lockMs: number;
  #open: {
    readonly life: NodeLife;
    readonly connection: Connection;
    readonly runner: BatchRunner;
  } | null = null;
  /** One batch at a time: the next begins when the one before has ended. */
  #last: Promise<unknown> = Promise.resolve();

  constructor({ node, index, newWork, clients, lockMs = LOCK_MS }: WriterParts) {
    this.#node = node;
    this.#index = index;
    this.#newWork = newWork;
    this.#clients = clients;
    this.#lockMs = lockMs;
  }

  send(operations: readonly Operation[]): Promise<BatchReply> {
    const reply = this.#last.then(() => this.#write(operations));
    this.#last = reply;
    return reply;
  }

  async close(): Promise<void> {
    await this.#last;
    await this.#open?.connection.close();
  }

  async #write(operations: readonly Operation[], lockMs = this.#lockMs): Promise<BatchReply> {
    let life: NodeLife;
    try {
      life = await this.#node.life();
    } catch (error) {
      return { kind: "unreachable", message: messageOf(error) };
    }
    for (let tries = 0, conflicts = 0; ; tries++) {
      // After a first conflict the other transaction has mostly ended.
      if (tries > 0 && (tries > 1 || conflicts === 0)) await pause();
      try {
        const runner = await this.#runner(life);
        if (this.#node.isOver(life)) return OVER;
        return await this.#run((batch) => runner.run(batch, lockMs), operations);
      } catch (error) {
        if (error instanceof OneByOne) return await this.#writeEach(operations, this.#lockMs);
        if (isConflict(error)) conflicts++;
        if (error instanceof RowsLocked || conflicts === CONFLICTS_MAX) {
          this.#clients.undone(operations);
          if (operations.length > 1) return await this.#writeEach(operations, LOCK_EACH_MS);
          return { kind: "busy", message: messageOf(error) };
        }
        const reply = await this.#afterFailure(error, life);
        if (reply !== null) return reply;
      }
      this.#clients.undone(operations);
    }
  }

  /** Writes operations of which one fails: each as a batch of its own, whose outcome is known before the next. */
  async #writeEach(operations: readonly Operation[], lockMs: number): Promise<BatchReply> {
    const values: unknown[] = [];
    const rejected: Rejection[] = [];
    const changed = new Set<number>();
    for (const [index, operation] of operations.entries()) {
      const reply = await this.#write([operation], lockMs);
      if (reply.kind === "committed") {
        values.push(reply.values[0]);
        for (const { message } of reply.rejected) rejected.push({ index, message });
        for (const account of reply.changed) changed.add(account);
      } else {
        values.push(undefined);
        rejected.push({ index, message: reply.message, kind: reply.kind });
      }
    }
    return { kind: "committed", values, rejected, changed: [...changed], hasWritten: true };
  }

  /** Leaves out what was given up while the server did not answer. */
  async #run(
    run: (batch: readonly Operation[]) => Promise<BatchReply>,
    operations: readonly Operation[],
  ): Promise<BatchReply> {
    const wanted = this.#clients.begin(operations);
    if (wanted === "all") return await run(operations);
    const batch = operations.filter((_, i) => wanted.includes(i));
    const values: unknown[] = Array.from({ length: operations.length });
    if (batch.length === 0) {
      return { kind: "committed", values, rejected: [], changed: [], hasWritten: false };
    }
    try {
      const reply = await run(batch);
      return inPlaces(reply, wanted, values);
    } catch (error) {
      if (!(error instanceof InDoubt)) throw error;
      const reply = inPlaces(error.reply, wanted, values);
      throw new InDoubt(error.xid, reply, { cause: error.cause });
    }
  }

  /** Answers how the batch ended; null when nothing of it was written and it can be run again. */
  async #afterFailure(error: unknown, life: NodeLife): Promise<BatchReply | null> {
    if (error instanceof InDoubt) return this.#settle(error, life);
    if (error instanceof Fenced) {
      this.#leave(life);
      return OVER;
    }
    if (error instanceof CommitsLost) {
      this.#node.hasLost(life);
      return OVER;
    }
    if (error instanceof ConnectionLost) return null;
    if (isConflict(error) || sqlStateOf(error) === DISK_FULL) return null;
    if (isPassing(error)) {
      // The next try meets a server that has restarted, or another one.
      this.#open?.connection.destroy(messageOf(error));
      return null;
    }
    return { kind: "unreachable", message: messageOf(error) };
  }

  /** Finds out how a batch ended whose COMMIT was not answered. */
  async #settle({ xid, reply }: InDoubt, life: NodeLife): Promise<BatchReply | null> {
    const doubt: Doubt = { xid, locker: null };
    for (let tries = 0; ; tries++) {
      if (tries > 0) await pause();
      try {
        const runner = await this.#runner(life);
        return (await runner.hasCommitted(doubt)) ? reply : null;
      } catch (error) {
        if (error instanceof Fenced || error instanceof CommitsLost) {
          return this.#afterFailure(error, life);
        }
        // Whatever else it is passes, but the end of the store.
        if (!(error instanceof StoreError && error.kind === "closed")) continue;
        return { kind: "unknown", message: messageOf(error) };
      }
    }
  }

  #leave(life: NodeLife): void {
    this.#node.fenced(life);
    this.#open?.connection.destroy("this life of the node is over");
    this.#open = null;
  }

  /** Makes a runner for this life: also for one that is over, whose last batch may be in doubt. */
  async #runner(life: NodeLife): Promise<BatchRunner> {
    const open = this.#open;
    if (open !== null && open.life === life && !open.connection.lost.aborted) return open.runner;
    open?.connection.destroy("this life of the node is over");
    const connection = await this.#node.connect();
    const stripe = life.stripes[this.#index];
    if (stripe === undefined) throw new Error("a node has a stripe for each of its writers");
    if (await hasLostCommits(connection, life)) {
      connection.destroy("it leads to a server that has lost something");
      throw new CommitsLost();
    }
    const { nodeSeq } = life;
    const statements = new BatchStatements(connection, {
      stripe,
      nodeSeq,
      nextSeq: () => life.nextSeq(),
    });
    const work = this.#newWork(statements);
    const committed = (xid: string): void => void life.lastCommits.set(stripe, xid);
    const runner = new BatchRunner({ connection, statements, work, committed });
    this.#open = { life, connection, runner };
    return runner;
  }
}

/** The server that was reached lacks what this life was told is committed. Nothing more is to be written in it. */
class CommitsLost extends Error {
  override readonly name = "CommitsLost" as const;
}

const DISK_FULL = "53100";

// A batch that fails at once each time, on a full disk for one, must not be tried without a pause.
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 50 + 100 * Math.random()));
}

// Another node's batch holds its rows for some milliseconds, and while a standby is slow for as long as that takes. A
// process that was stopped in the middle of one holds them for up to 10 s: only what needs these rows may wait for it.
const LOCK_MS = 1000;
// Of a batch that met such a row each operation is tried by itself, and none holds the next one up for long.
const LOCK_EACH_MS = 100;

// With the pauses about a second: its engine and its clients try again later, and others need the connection.
const CONFLICTS_MAX = 10;

const OVER: BatchReply = {
  kind: "unreachable",
  message: "this node is no member until it joins again",
};

/** The reply to a batch of which only some operations were run. */
function inPlaces(
  reply: BatchReply,
  places: readonly number[],
  values: readonly unknown[],
): BatchReply {
  if (reply.kind !== "committed") return reply;
  const all = values.map((_, i) => reply.values[places.indexOf(i)]);
  const rejected = reply.rejected.map(({ index, message }) => ({
    index: places[index] ?? index,
    message,
  }));
  return { ...reply, values: all, rejected };
}

/** Gives each batch to a writer that is free, in turn. */
export class Writers implements BatchTransport {
  readonly #writers: readonly Writer[];
  readonly #busy = new Set<Writer>();

  constructor(writers: readonly Writer[]) {
    this.#writers = writers;
  }

  async send(operations: readonly Operation[]): Promise<BatchReply> {
    const writer = this.#writers.find((each) => !this.#busy.has(each)) ?? this.#writers[0];
    if (writer === undefined) throw new Error("there is no writer");
    this.#busy.add(writer);
    try {
      return await writer.send(operations);
    } finally {
      this.#busy.delete(writer);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#writers.map((writer) => writer.close()));
  }
}

export interface ClientWaitsParts {
  readonly clock: Clock;
  /** How long a client waits for its write. */
  readonly msMax: number;
  /** True while the server does not answer: then nobody need wait to learn it. */
  readonly isOutOfReach: () => boolean;
}

/** A client's write that was not answered yet. */
interface Waiting {
  /** True once a batch with it was sent and it is not known that nothing of it was written. */
  isUnderWay: boolean;
  /** Its client was told something: it is not written any more if it can be helped. */
  isGivenUp: boolean;
}

/**
 * Lets clients wait no longer than some seconds for a server that does not answer, while the node's own writes wait on:
 * a client can come again. Whoever is told `unreachable` can be sure that nothing was written nor will be; whoever is
 * told `unknown` cannot.
 */
export class ClientWaits {
  readonly #parts: ClientWaitsParts;
  /** By the arguments of each operation. */
  readonly #waiting = new Map<unknown, Waiting>();

  constructor(parts: ClientWaitsParts) {
    this.#parts = parts;
  }

  /** Waits for a write of these arguments, which no other write may have. */
  async wait<Value>(args: object, submit: () => Promise<Value>): Promise<Value> {
    if (this.#parts.isOutOfReach()) throw unreachable();
    const waiting: Waiting = { isUnderWay: false, isGivenUp: false };
    this.#waiting.set(args, waiting);
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = this.#parts.clock.setTimer(this.#parts.msMax, () => {
      waiting.isGivenUp = true;
      reject(waiting.isUnderWay ? unknown() : unreachable());
    });
    const written = submit().finally(() => {
      timer.cancel();
      this.#waiting.delete(args);
    });
    return await Promise.race([written, promise]);
  }

  /** Tells that a batch is about to be sent. Answers the places of those operations that are still waited for. */
  begin(batch: readonly Operation[]): readonly number[] | "all" {
    let isWhole = true;
    for (const { args } of batch) {
      const waiting = this.#waiting.get(args);
      if (waiting === undefined) continue;
      if (waiting.isGivenUp) isWhole = false;
      else waiting.isUnderWay = true;
    }
    if (isWhole) return "all";
    return [...batch.keys()].filter((i) => !this.#waiting.get(batch[i]?.args)?.isGivenUp);
  }

  /** Tells that nothing of a batch was written. */
  undone(batch: readonly Operation[]): void {
    for (const { args } of batch) {
      const waiting = this.#waiting.get(args);
      if (waiting !== undefined) waiting.isUnderWay = false;
    }
  }
}

function unreachable(): StoreError {
  return new StoreError("unreachable", "the database does not answer");
}

function unknown(): StoreError {
  const text = "whether this was written is not known; look before you repeat it";
  return new StoreError("unknown", `${text}: the database does not answer`);
}
