import { Worker } from "node:worker_threads";

import { threadEntries, threadOptions } from "../../assets.ts";
import { messageOf } from "../../domain/error.ts";
import type { BatchReply, BatchTransport } from "../common/batch.ts";
import { openWithSchema } from "./machine/schema.ts";
import type { WriterMessage, WriterOrder } from "./writer-thread.ts";
import { newBatchRunner } from "./writes.ts";

/** Starts the writer thread on the file and waits until the file is open. Rejects with the reason if that fails. */
export async function startWriterThread(file: string): Promise<BatchTransport> {
  const worker = new Worker(threadEntries.writer, {
    ...threadOptions,
    workerData: { role: "writer", file },
  });
  const thread = new WriterThread(worker);
  await thread.ready;
  return thread;
}

/** The part of a worker thread that a {@link WriterThread} needs. */
interface WriterWorker {
  on(event: "message", listener: (message: WriterMessage) => void): unknown;
  on(event: "messageerror" | "error", listener: (error: unknown) => void): unknown;
  once(event: "exit", listener: () => void): unknown;
  postMessage(order: WriterOrder): void;
}

/**
 * The main thread's end of the writer thread. Each batch has an id, and a reply counts for the batch whose id it
 * carries. If the thread dies or sends an invalid message, the outcome of its last batches is unknown: they may be on
 * disk.
 */
export class WriterThread implements BatchTransport {
  readonly #worker: WriterWorker;
  readonly #waiting = new Map<number, (reply: BatchReply) => void>();
  readonly #ended: Promise<void>;
  #lastId = 0;
  #lost: Extract<BatchReply, { kind: "failed" }> | null = null;
  readonly #ready = Promise.withResolvers<void>();

  constructor(worker: WriterWorker) {
    this.#worker = worker;
    // A thread may be lost before a caller awaits it.
    this.ready.catch(() => {});
    worker.on("message", (message: WriterMessage) => {
      if (message.kind === "ready") this.#ready.resolve();
      else if (message.kind === "unusable") this.#ready.reject(new Error(message.message));
      else this.#settle(message);
    });
    worker.on("messageerror", (error) => this.#lose(`a reply was lost: ${messageOf(error)}`));
    worker.on("error", (error) => this.#lose(messageOf(error), error));
    this.#ended = new Promise((resolve) => {
      worker.once("exit", () => {
        this.#lose("the writer thread has ended");
        resolve();
      });
    });
  }

  /** Settles once the file is open; rejects if that fails or the thread ends before. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  send(operations: Parameters<BatchTransport["send"]>[0]): Promise<BatchReply> {
    if (this.#lost !== null) return Promise.resolve(this.#lost);
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      try {
        this.#tell({ kind: "batch", id, operations });
      } catch (error) {
        // The thread never saw it.
        this.#waiting.delete(id);
        resolve({ kind: "failed", message: messageOf(error) });
      }
    });
  }

  async close(): Promise<void> {
    // A thread that has already ended ignores it.
    this.#tell({ kind: "close" });
    await this.#ended;
  }

  #tell(order: WriterOrder): void {
    this.#worker.postMessage(order);
  }

  #settle({ id, reply }: Extract<WriterMessage, { kind: "reply" }>): void {
    const resolve = this.#waiting.get(id);
    if (resolve === undefined) {
      this.#lose(`a reply came to batch ${id}, which waits for none`);
      return;
    }
    this.#waiting.delete(id);
    resolve(reply);
  }

  #lose(message: string, error: unknown = new Error(message)): void {
    this.#lost ??= { kind: "failed", message };
    this.#ready.reject(error);
    const lost = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const resolve of lost) resolve({ kind: "unknown", message });
  }
}

/**
 * Runs batches in this thread, for a process that writes a few operations and ends: the CLI beside a running daemon.
 */
export function openInlineWriter(file: string): BatchTransport {
  const connection = openWithSchema(file);
  const runner = newBatchRunner(connection);
  return {
    send: (batch) => Promise.resolve(runner.run(batch)),
    close: () => {
      connection.close();
      return Promise.resolve();
    },
  };
}
