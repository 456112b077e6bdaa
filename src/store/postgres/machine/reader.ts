import { performanceNow, setTimeout } from "../../../domain/clock/timers.ts";
import { StoreError } from "../../store-error.ts";
import { isPassing } from "./batch.ts";
import { ConnectionLost, sqlStateOf, type Connection } from "./connection.ts";
import type { Sql, SqlValue } from "./sql.ts";

/** Opens a connection; rejects when that fails. */
export type Connect = () => Promise<Connection>;

// A read is repeated after a lost connection for at most this time, then it is rejected.
const PATIENCE_MS = 5000;
const PAUSE_MS = 50;

// The server broke the statement off.
const TOOK_TOO_LONG = "57014";

/**
 * Reads over some connections, each statement by itself: it sees everything that was committed when it began, by any
 * node. Reads in pipelines, so that one connection carries all look-ups concurrently.
 */
export class Reader implements Sql {
  readonly #slots: ReaderSlot[];
  #turn = 0;

  constructor(connect: Connect, connections: number) {
    this.#slots = Array.from({ length: connections }, () => new ReaderSlot(connect));
  }

  all<Row>(text: string, values?: readonly SqlValue[]): Promise<readonly Row[]> {
    return this.#slot().read((sql) => sql.all<Row>(text, values));
  }

  get<Row>(text: string, values?: readonly SqlValue[]): Promise<Row | undefined> {
    return this.#slot().read((sql) => sql.get<Row>(text, values));
  }

  run(text: string, values?: readonly SqlValue[]): Promise<number> {
    return this.#slot().read((sql) => sql.run(text, values));
  }

  async close(): Promise<void> {
    await Promise.all(this.#slots.map((slot) => slot.close()));
  }

  #slot(): ReaderSlot {
    const slot = this.#slots[this.#turn++ % this.#slots.length];
    if (slot === undefined) throw new Error("a reader has a connection");
    return slot;
  }
}

/**
 * Reads that take several statements or long: each has a connection for itself and sees one moment of the database.
 */
export class SnapshotReader {
  readonly #slots: ReaderSlot[];
  readonly #free: ReaderSlot[];
  readonly #waiting: ((slot: ReaderSlot) => void)[] = [];

  constructor(connect: Connect, connections: number) {
    this.#slots = Array.from({ length: connections }, () => new ReaderSlot(connect));
    this.#free = [...this.#slots];
  }

  async read<Value>(work: (sql: Sql) => Promise<Value>): Promise<Value> {
    const slot = this.#free.shift() ?? (await this.#wait());
    try {
      return await slot.read((connection) => snapshot(connection, work));
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free.push(slot);
      else next(slot);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#slots.map((slot) => slot.close()));
  }

  #wait(): Promise<ReaderSlot> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

async function snapshot<Value>(
  connection: Connection,
  work: (sql: Sql) => Promise<Value>,
): Promise<Value> {
  const begun = connection.command("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  begun.catch(() => {});
  try {
    return await work(connection);
  } finally {
    connection.command("COMMIT").catch(() => {});
  }
}

/** A place for a connection, which is opened when it is needed and again when it was lost. */
class ReaderSlot {
  readonly #connect: Connect;
  #opening: Promise<Connection> | null = null;
  #open: Connection | null = null;
  readonly #underWay = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(connect: Connect) {
    this.#connect = connect;
  }

  async read<Value>(work: (connection: Connection) => Promise<Value>): Promise<Value> {
    const reading = this.#read(work);
    this.#underWay.add(reading);
    try {
      return await reading;
    } finally {
      this.#underWay.delete(reading);
    }
  }

  async #read<Value>(work: (connection: Connection) => Promise<Value>): Promise<Value> {
    const until = performanceNow() + PATIENCE_MS;
    for (;;) {
      try {
        return await work(await this.#connection());
      } catch (error) {
        if (sqlStateOf(error) === TOOK_TOO_LONG) {
          throw new StoreError("busy", "the database took too long to read", { cause: error });
        }
        // As for a write: a repeated read may find free space, or the lock released.
        if (isPassing(error) && !isLost(error)) {
          throw new StoreError("busy", "the database cannot be read now", { cause: error });
        }
        if (!isLost(error)) throw error;
        if (this.#isClosed) throw new StoreError("closed", "the store is closed");
        if (performanceNow() > until) {
          throw new StoreError("unreachable", "the database cannot be reached", { cause: error });
        }
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
  }

  /** Finishes what was asked for before; if the server is gone, the dialer has given up by then. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#underWay);
    await this.#open?.close();
  }

  async #connection(): Promise<Connection> {
    if (this.#open !== null && !this.#open.lost.aborted) return this.#open;
    this.#opening ??= this.#connect();
    try {
      this.#open = await this.#opening;
    } catch (error) {
      throw error instanceof ConnectionLost
        ? error
        : new ConnectionLost("the server cannot be reached", { cause: error });
    } finally {
      this.#opening = null;
    }
    return this.#open;
  }
}

// A statement of a server that goes down or comes up fails as if the connection were lost.
function isLost(error: unknown): boolean {
  return error instanceof ConnectionLost || sqlStateOf(error).startsWith("57P0");
}
