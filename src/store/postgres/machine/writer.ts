import type { Clock } from "../../../domain/clock/clock.ts";
import { setTimeout } from "../../../domain/clock/timers.ts";
import { messageOf } from "../../../domain/error.ts";
import type { BatchReply, BatchTransport, Operation, Rejection } from "../../common/batch.ts";
import { StoreError } from "../../store-error.ts";
import {
  BatchRunner,
  GIVEN_UP,
  InDoubt,
  isConflict,
  isPassing,
  type NewWork,
  OneByOne,
  RowsLocked,
} from "./batch.ts";
import { type Doubt, Fenced, hasCommitted, hasLostCommits } from "./commits.ts";
import { type Connection, ConnectionLost, sqlStateOf } from "./connection.ts";
import type { NodeLife } from "./life.ts";
import type { ServerNode } from "./node.ts";

export interface WriterParts {
  readonly node: ServerNode;
  /** Which of the node's writers this is. */
  readonly index: number;
  readonly newWork: NewWork;
  readonly clients: ClientWaits;
  /** How long a batch waits for rows that another process holds: {@link LOCK_MS} but in tests. */
  readonly lockMs?: number | undefined;
}

/** A connection of a life, and what runs batches on it. */
interface OpenRunner {
  readonly life: NodeLife;
  readonly stripe: number;
  readonly connection: Connection;
  readonly runner: BatchRunner;
}

/**
 * Writes batches over one connection. A batch gets its reply only when its outcome is known, also if the connection or
 * the server fails. It runs again until it has committed, or until the node's incarnation ends.
 */
export class Writer implements BatchTransport {
  readonly #parts: WriterParts;
  #open: OpenRunner | null = null;
  /** One batch at a time: the next begins when the one before has ended. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(parts: WriterParts) {
    this.#parts = parts;
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

  async #write(
    operations: readonly Operation[],
    lockMs = this.#parts.lockMs ?? LOCK_MS,
  ): Promise<BatchReply> {
    const { node, clients } = this.#parts;
    let life: NodeLife;
    try {
      life = await node.life();
    } catch (error) {
      return { kind: "unreachable", message: messageOf(error) };
    }
    for (let tries = 0, conflicts = 0; ; tries++) {
      // After a first conflict the other transaction has mostly ended.
      if (tries > 0 && (tries > 1 || conflicts === 0)) await pause();
      try {
        const { runner } = await this.#runner(life);
        if (node.isOver(life)) return OVER;
        return await runner.run(clients.begin(operations), lockMs);
      } catch (error) {
        if (error instanceof OneByOne) return await this.#writeEach(operations);
        if (isConflict(error)) conflicts++;
        if (error instanceof RowsLocked || conflicts === CONFLICTS_MAX) {
          clients.undone(operations);
          if (operations.length > 1) return await this.#writeEach(operations, LOCK_EACH_MS);
          return { kind: "busy", message: messageOf(error) };
        }
        const reply = await this.#afterFailure(error, life);
        if (reply !== null) return reply;
      }
      clients.undone(operations);
    }
  }

  /** Writes operations of which one fails: each as a batch of its own, whose outcome is known before the next. */
  async #writeEach(operations: readonly Operation[], lockMs?: number): Promise<BatchReply> {
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

  /** Returns how the batch ended; null if nothing of it was written and it can be run again. */
  async #afterFailure(error: unknown, life: NodeLife): Promise<BatchReply | null> {
    if (error instanceof InDoubt) return this.#settle(error, life);
    if (error instanceof Fenced) {
      this.#parts.node.fenced(life);
      this.#open?.connection.destroy("this incarnation of the node has ended");
      return OVER;
    }
    if (error instanceof CommitsLost) {
      this.#parts.node.hasLost(life);
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

  /** Finds out how a batch ended whose COMMIT got no reply. */
  async #settle({ xid, reply }: InDoubt, life: NodeLife): Promise<BatchReply | null> {
    const doubt: Doubt = { xid };
    for (let tries = 0; ; tries++) {
      if (tries > 0) await pause();
      try {
        const { connection, stripe } = await this.#runner(life);
        if (!(await hasCommitted(connection, { stripe, nodeSeq: life.nodeSeq }, doubt)))
          return null;
        life.lastCommits.set(stripe, xid);
        return reply;
      } catch (error) {
        if (error instanceof Fenced || error instanceof CommitsLost) {
          return this.#afterFailure(error, life);
        }
        // Any other failure passes, except the end of the store.
        if (!(error instanceof StoreError && error.kind === "closed")) continue;
        return { kind: "unknown", message: messageOf(error) };
      }
    }
  }

  /** Returns a runner for this incarnation, also for an ended one, whose last batch may be in doubt. */
  async #runner(life: NodeLife): Promise<OpenRunner> {
    const open = this.#open;
    if (open !== null && open.life === life && !open.connection.lost.aborted) return open;
    open?.connection.destroy("this incarnation of the node has ended");
    const { node, newWork, index } = this.#parts;
    const connection = await node.connect();
    const stripe = life.stripes[index];
    if (stripe === undefined) throw new Error("a node has a stripe for each of its writers");
    if (await hasLostCommits(connection, life)) {
      connection.destroy("it leads to a server that has lost something");
      throw new CommitsLost();
    }
    const { nodeSeq, nextSeq, lastCommits } = life;
    const committed = (xid: string): void => void lastCommits.set(stripe, xid);
    const runner = new BatchRunner({ connection, stripe, nodeSeq, nextSeq, newWork, committed });
    this.#open = { life, stripe, connection, runner };
    return this.#open;
  }
}

/** The reached server lacks commits that were acknowledged to this incarnation. Nothing more is to be written in it. */
class CommitsLost extends Error {
  override readonly name = "CommitsLost" as const;
}

const DISK_FULL = "53100";

// A batch that fails immediately each time, on a full disk for example, must not be tried without a pause.
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 50 + 100 * Math.random()));
}

// Another node's batch holds its rows for some milliseconds, and while a standby is slow for as long as that takes. A
// process that was stopped in the middle of one holds them for up to 10 s: only what needs these rows may wait for it.
const LOCK_MS = 1000;
// Each operation of a batch that met such a row is tried by itself, and none delays the next one for long.
const LOCK_EACH_MS = 100;

// With the pauses about a second: its engine and its clients try again later, and others need the connection.
const CONFLICTS_MAX = 10;

const OVER: BatchReply = {
  kind: "unreachable",
  message: "this node is not a member of the cluster until it joins again",
};

/** Gives each batch to a writer that is free, in turn. */
export class Writers implements BatchTransport {
  readonly #writers: readonly Writer[];
  readonly #busy = new Set<Writer>();

  constructor(writers: readonly Writer[]) {
    this.#writers = writers;
  }

  async send(operations: readonly Operation[]): Promise<BatchReply> {
    const writer = this.#writers.find((each) => !this.#busy.has(each)) ?? this.#writers[0];
    if (writer === undefined) throw new Error("no writer exists");
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
  /** True while the server does not respond: then a client is not kept waiting. */
  readonly isOutOfReach: () => boolean;
}

/** A client's write without a result yet. */
interface Waiting {
  /** True if the write may have been committed. */
  isUnderWay: boolean;
  /** Its client got an error: it is not written any more if that can be avoided. */
  isGivenUp: boolean;
}

/**
 * Lets clients wait no longer than some seconds for a server that does not respond, while the node's own writes wait on:
 * a client can come again. After `unreachable` nothing was written nor will be; after `unknown` it may have been.
 */
export class ClientWaits {
  readonly #parts: ClientWaitsParts;
  /** By the arguments of each operation. */
  readonly #waiting = new Map<unknown, Waiting>();

  constructor(parts: ClientWaitsParts) {
    this.#parts = parts;
  }

  /** Waits for a write with these arguments, which no other write may have. */
  async wait<Value>(args: object, submit: () => Promise<Value>): Promise<Value> {
    const unreachable = () => new StoreError("unreachable", "the database does not respond");
    if (this.#parts.isOutOfReach()) throw unreachable();
    const waiting: Waiting = { isUnderWay: false, isGivenUp: false };
    this.#waiting.set(args, waiting);
    const { promise, reject } = Promise.withResolvers<never>();
    const timer = this.#parts.clock.setTimer(this.#parts.msMax, () => {
      waiting.isGivenUp = true;
      reject(waiting.isUnderWay ? new StoreError("unknown", UNKNOWN) : unreachable());
    });
    const written = submit().finally(() => {
      timer.cancel();
      this.#waiting.delete(args);
    });
    return await Promise.race([written, promise]);
  }

  /** A batch is about to be sent. Returns it with {@link GIVEN_UP} in the place of operations that were given up. */
  begin(batch: readonly Operation[]): readonly Operation[] {
    let isWhole = true;
    for (const { args } of batch) {
      const waiting = this.#waiting.get(args);
      if (waiting === undefined) continue;
      if (waiting.isGivenUp) isWhole = false;
      else waiting.isUnderWay = true;
    }
    if (isWhole) return batch;
    return batch.map((each) =>
      this.#waiting.get(each.args)?.isGivenUp === true ? GIVEN_UP : each,
    );
  }

  /** Nothing of a batch was written. */
  undone(batch: readonly Operation[]): void {
    for (const { args } of batch) {
      const waiting = this.#waiting.get(args);
      if (waiting !== undefined) waiting.isUnderWay = false;
    }
  }
}

const UNKNOWN =
  "it is unknown whether this was written; check before you repeat it: the database does not respond";
