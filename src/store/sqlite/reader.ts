import { Worker } from "node:worker_threads";

import { threadEntries, threadOptions } from "../../assets.ts";
import { ReadTurns, type GiveWay, type ReadOwner } from "../common/read-turns.ts";
import { damage, FileFault, StoreError, type FileTrouble } from "../store.ts";
import { toReadError, type Connection } from "./machine/connection.ts";
import { OpenFiles } from "./machine/open-files.ts";
import type { ReadOutcome, ReaderAnswer, ReaderOrder } from "./reader-thread.ts";
import { longReads, type LongReads } from "./reads.ts";

/** Runs reads that may take long. */
export interface LongReader {
  /** Gets ready for the first read, which would have to wait for that. */
  start(): void;
  /**
   * Promises the answer of the read. Rejects with a StoreError when the file cannot be read, or when too many reads of
   * this owner wait.
   */
  read<Name extends keyof LongReads>(
    name: Name,
    args: Parameters<LongReads[Name]>[0],
    owner?: ReadOwner,
  ): Promise<ReturnType<LongReads[Name]>>;
  /** Replies to earlier reads, then closes the file. */
  close(): Promise<void>;
}

/** Reads on the caller's connection, for a process that reads a little and ends. */
export function newInlineReader(connection: Connection): LongReader {
  let reads: LongReads | null = null;
  return {
    start() {},
    async read(name, args) {
      try {
        reads ??= longReads(connection);
        // The compiler sees only that some read takes some arguments and returns something.
        const read = reads[name] as (args: unknown) => unknown;
        return read(args) as ReturnType<LongReads[typeof name]>;
      } catch (error) {
        throw toReadError(error);
      }
    },
    close: () => Promise.resolve(),
  };
}

interface ThreadReaderOptions {
  readonly file: string;
  /** Called between two reads. */
  readonly giveWay?: GiveWay;
}

/**
 * Reads in a thread of its own, which the first read starts at the latest. When the thread is lost, its reads are lost
 * too; the next read starts another thread.
 */
export function newThreadReader({ file, giveWay }: ThreadReaderOptions): LongReader {
  let thread: ReaderThread | null = null;
  const turns = new ReadTurns(giveWay);
  const started = (): ReaderThread => {
    if (thread === null || thread.isLost) thread = new ReaderThread(file);
    return thread;
  };
  return {
    start: () => void started(),
    read: (name, args, owner = null) =>
      // The thread replies to a read with the value that its function returned.
      turns.take(
        owner,
        () => started().ask(name, args) as Promise<ReturnType<LongReads[typeof name]>>,
      ),
    async close() {
      await turns.idle();
      await thread?.close();
    },
  };
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

class ReaderThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  readonly #ended: Promise<void>;
  #lastId = 0;
  #isLost = false;

  constructor(file: string) {
    this.#worker = new Worker(threadEntries.reader, {
      ...threadOptions,
      workerData: { role: "reader", file },
    });
    this.#worker.on("message", ({ id, outcome }: ReaderAnswer) => this.#settle(id, outcome));
    this.#worker.on("error", (error) => this.#lose(error));
    this.#ended = new Promise((resolve) => {
      this.#worker.once("exit", () => {
        this.#lose(new Error("the reader thread has ended"));
        resolve();
      });
    });
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  ask(name: keyof LongReads, args: unknown): Promise<unknown> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#tell({ kind: "read", id, name, args });
    });
  }

  async close(): Promise<void> {
    if (!this.#isLost) this.#tell({ kind: "close" });
    await this.#ended;
  }

  #tell(order: ReaderOrder): void {
    this.#worker.postMessage(order);
  }

  #settle(id: number, outcome: ReadOutcome): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (outcome.kind === "done") waiting?.resolve(outcome.value);
    else waiting?.reject(toError(outcome));
  }

  #lose(cause: unknown): void {
    this.#isLost = true;
    const error = new StoreError("failed", "the database cannot be read: its reader was lost", {
      cause,
    });
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

function toError(outcome: Extract<ReadOutcome, { kind: "error" }>): Error {
  const { storeError, trouble, message } = outcome;
  if (trouble !== null) return new FileFault(trouble);
  return storeError === null ? new Error(message) : new StoreError(storeError, message);
}

/** Ends all writing when the file cannot be written to, or no longer. */
export class FileGuard {
  readonly #file: string;
  readonly #commit: { condemn(trouble: FileTrouble): void };
  readonly #files: OpenFiles;
  #reader: LongReader | null = null;
  #tablesLeft: readonly string[] = [];

  /** To be made once the file is open. */
  constructor(file: string, commit: { condemn(trouble: FileTrouble): void }) {
    this.#file = file;
    this.#commit = commit;
    this.#files = new OpenFiles(file);
  }

  /** Checks that the files are still the ones that were opened. */
  look(): void {
    const trouble = this.#files.trouble();
    if (trouble !== null) this.#commit.condemn(trouble);
  }

  /**
   * Looks for damage in the next table; after the last one it begins with the first again. It reads in a thread that
   * lives from the first table to the last, and one table at a time, because a read holds back the WAL, which cannot
   * restart meanwhile; reading the whole file in one would hold it back for as long as that takes. Measured with a
   * million tasks in 0.92 GB on two busy cores: 1.6 s of processor time; from memory 4 s in all and 1.3 s for the
   * longest table; from the disk 17 s and 5.8 s. Ten times as many tasks hold it back for a minute: the WAL then grows
   * beyond its limit, and the writer waits 2 s for the reader each time that it has doubled.
   */
  async check(): Promise<"more" | "done"> {
    const detail = await this.reading(this.#checkTable());
    if (detail !== null) this.#commit.condemn(damage(detail));
    else if (this.#tablesLeft.length > 0) return "more";
    else await this.close();
    return "done";
  }

  async #checkTable(): Promise<string | null> {
    if (this.#reader === null) {
      this.#reader = newThreadReader({ file: this.#file });
      this.#tablesLeft = await this.#reader.read("listTables", undefined);
    }
    const [table, ...left] = this.#tablesLeft;
    this.#tablesLeft = left;
    return table === undefined ? null : this.#reader.read("checkTable", table);
  }

  /** Waits for a read that may meet damage. */
  async reading<Value>(read: Promise<Value>): Promise<Value> {
    try {
      return await read;
    } catch (error) {
      throw this.noted(error);
    }
  }

  /** Makes of an error of a read what it says about the file. */
  noted(error: unknown): unknown {
    if (error instanceof FileFault) this.#commit.condemn(error.trouble);
    return error;
  }

  /** Waits for the table that is being read, then lets go of the file. */
  async close(): Promise<void> {
    const reader = this.#reader;
    this.#reader = null;
    await reader?.close();
  }
}
