import { setImmediate } from "../../domain/clock/timers.ts";
import { messageOf } from "../../domain/error.ts";
import { FileFault, StoreError, type ChangeListener, type FileTrouble } from "../store.ts";
import type { BatchReply, BatchTransport, Operation } from "./batch.ts";

/** Writes by name: each takes its arguments as data. */
export type WritesOf<Writes> = { readonly [Name in keyof Writes]: (args: never) => unknown };

export interface GroupCommitLimits {
  /**
   * A batch closes at this much weight: beyond 256 rows a commit only gets later (measured: 62k/s at 64, 80k/s at 256,
   * 77k/s at 1,000).
   */
  readonly batchWeightMax: number;
  /**
   * Operations that may be shed are refused while this much weight of such operations waits. The engine's own work is
   * bounded by its limits, and would make a busy daemon refuse clients whom it could serve.
   */
  readonly backlogWeightMax: number;
  /** True if later writes are sound although it is not known how an earlier one ended. */
  readonly survivesDoubt?: boolean;
}

/** How an operation counts and whether it may be refused for want of room. */
export interface SubmitOptions {
  /** Roughly the rows it writes. */
  readonly weight: number;
  /** True for a client's request: it can come again. */
  readonly mayShed: boolean;
}

interface Pending extends SubmitOptions {
  readonly operation: Operation;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

// One batch is written while the next waits at the writer's door, so that the writer need not wait for the
// main thread after each.
const BATCHES_IN_FLIGHT_MAX = 2;
// A turn of the main thread that takes in this much does not keep it until its end (measured with 64 connections:
// 60 % of the rate of a bare h3 handler instead of 53 %; 8 and 32 are no better).
const OPERATIONS_TO_SEND_AT = 16;

/**
 * Group commit: operations that arrive while a batch is being written are collected and become the next batch, so one
 * fsync serves them all. A promise settles after the commit of its batch, in the order of submission; nothing is
 * retried here.
 */
export class GroupCommit<Writes extends WritesOf<Writes>> {
  readonly #transport: BatchTransport;
  readonly #limits: GroupCommitLimits;
  #pending: Pending[] = [];
  /** The weight of the waiting writes that may be shed. */
  #backlog = 0;
  #batchesInFlight = 0;
  #flushPlanned = false;
  #fault: StoreError | null = null;
  #shortage: StoreError | null = null;
  #drained: (() => void)[] = [];
  #listeners: readonly ChangeListener[] = [];

  constructor(transport: BatchTransport, limits: GroupCommitLimits) {
    this.#transport = transport;
    this.#limits = limits;
  }

  /** The error that refuses every later operation; null while none does. */
  get fault(): StoreError | null {
    return this.#fault;
  }

  /** Why the last batch found no room; null once one has. */
  get shortage(): StoreError | null {
    return this.#shortage;
  }

  /**
   * Promises the operation's value once it is on disk. Rejects with a StoreError if the write is not on disk, or if
   * that is unknown.
   */
  submit<Name extends keyof Writes & string>(
    name: Name,
    args: Parameters<Writes[Name]>[0],
    { weight, mayShed }: SubmitOptions,
  ): Promise<ReturnType<Writes[Name]>> {
    if (this.#fault !== null) return Promise.reject(this.#fault);
    if (mayShed && this.#backlog >= this.#limits.backlogWeightMax) {
      return Promise.reject(new StoreError("overloaded", "too many writes are waiting"));
    }
    return new Promise((resolve, reject) => {
      // The writer returns the result of the operation's own function.
      const settle = (value: unknown): void => resolve(value as ReturnType<Writes[Name]>);
      this.#pending.push({ operation: { name, args }, weight, mayShed, resolve: settle, reject });
      if (mayShed) this.#backlog += weight;
      this.#planFlush();
    });
  }

  /** Refuses everything from now on because of what is wrong with the file. */
  condemn(trouble: FileTrouble): void {
    this.#failFrom(new FileFault(trouble));
  }

  /**
   * Notifies the listener after each batch, once its promises have settled, of the accounts whose tasks and deliveries
   * changed. Returns a function that stops it.
   */
  watch(listener: ChangeListener): () => void {
    this.#listeners = [...this.#listeners, listener];
    return () => {
      this.#listeners = this.#listeners.filter((each) => each !== listener);
    };
  }

  /** Notifies the listeners that tasks or deliveries of the given accounts changed. */
  tell(accounts: readonly number[]): void {
    if (accounts.length === 0 || this.#listeners.length === 0) return;
    const changes = { accounts, types: [], lanes: [], ended: [] };
    for (const listener of this.#listeners) listener(changes);
  }

  /** Settles when everything submitted so far has been settled. */
  drain(): Promise<void> {
    if (this.#pending.length === 0 && this.#batchesInFlight === 0) return Promise.resolve();
    return new Promise((resolve) => this.#drained.push(resolve));
  }

  /** Refuses new operations from now on; settles when what was submitted before has been settled. */
  stop(): Promise<void> {
    this.#fault ??= new StoreError("closed", "the store is closed");
    return this.drain();
  }

  /** Stops, then closes the transport. */
  async close(): Promise<void> {
    await this.stop();
    await this.#transport.close();
  }

  // A first batch closes at the end of the turn of the event loop, with the writes of all requests that arrived in it.
  #planFlush(): void {
    if (this.#pending.length >= OPERATIONS_TO_SEND_AT) {
      this.#flush();
      return;
    }
    if (this.#flushPlanned || this.#batchesInFlight > 0) return;
    this.#flushPlanned = true;
    setImmediate(() => {
      this.#flushPlanned = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#batchesInFlight >= BATCHES_IN_FLIGHT_MAX) return;
    const batch = this.#takeBatch();
    if (batch.length > 0) void this.#write(batch);
  }

  async #write(batch: readonly Pending[]): Promise<void> {
    this.#batchesInFlight++;
    const reply = await this.#send(batch);
    this.#batchesInFlight--;
    // The next batch goes out before this one is settled, which answers all its requests.
    if (reply.kind !== "failed" && reply.kind !== "unknown") this.#flush();
    this.#settle(batch, reply);
    if (reply.kind === "committed") this.tell(reply.changed);
    if (this.#pending.length > 0) this.#planFlush();
    else if (this.#batchesInFlight === 0) this.#tellDrained();
  }

  async #send(batch: readonly Pending[]): Promise<BatchReply> {
    try {
      return await this.#transport.send(batch.map(({ operation }) => operation));
    } catch (error) {
      // A transport answers. If one throws, its progress is unknown.
      return { kind: "unknown", message: messageOf(error) };
    }
  }

  #takeBatch(): Pending[] {
    let weight = 0;
    let count = 0;
    for (const { weight: more } of this.#pending) {
      if (count > 0 && weight + more > this.#limits.batchWeightMax) break;
      weight += more;
      count++;
    }
    const batch = this.#pending.splice(0, count);
    for (const { mayShed, weight: taken } of batch) if (mayShed) this.#backlog -= taken;
    return batch;
  }

  #settle(batch: readonly Pending[], reply: BatchReply): void {
    if (reply.kind !== "committed") {
      const error = toStoreError(reply);
      if (reply.kind === "full") this.#shortage = error;
      for (const { reject } of batch) reject(error);
      const isFatal = reply.kind === "failed" || reply.kind === "unknown";
      if (!isFatal || (reply.kind === "unknown" && this.#limits.survivesDoubt === true)) return;
      this.#failFrom(toStoreError({ ...reply, kind: "failed" }));
      return;
    }
    if (reply.hasWritten) this.#shortage = null;
    for (const { index, message, kind } of reply.rejected) {
      const error = kind === undefined ? null : toStoreError({ kind, message });
      batch[index]?.reject(error ?? new Error(`a write was rejected: ${message}`));
    }
    // A promise that was rejected stays so.
    batch.forEach(({ resolve, reject }, i) => {
      if (i < reply.values.length) resolve(reply.values[i]);
      else reject(toStoreError({ kind: "unknown", message: "no reply" }));
    });
  }

  #failFrom(error: StoreError): void {
    // A fault of the file says more than the error of the write that met it first.
    const isVague = this.#fault?.kind === "failed" && !(this.#fault instanceof FileFault);
    if (this.#fault === null || (isVague && error instanceof FileFault)) this.#fault = error;
    for (const { reject } of this.#pending.splice(0)) reject(error);
    this.#backlog = 0;
  }

  #tellDrained(): void {
    for (const tell of this.#drained.splice(0)) tell();
  }
}

type Refusal = Pick<Exclude<BatchReply, { kind: "committed" }>, "kind" | "message"> & {
  readonly trouble?: FileTrouble;
};

function toStoreError({ kind, message, trouble }: Refusal): StoreError {
  if (kind === "failed" && trouble !== undefined) return new FileFault(trouble);
  const what =
    kind === "unknown"
      ? "it is unknown whether this was written; check before you repeat it"
      : "the database cannot be written";
  return new StoreError(kind, `${what}: ${message}`);
}
