import { Worker } from "node:worker_threads";

import { schemaSql, threadOptions, writerThreadEntry } from "../../assets.ts";
import { BatchRunner, type BatchReply } from "./batch.ts";
import { openWriter, type Connection } from "./connection.ts";
import type { BatchTransport } from "./group-commit.ts";
import { InstanceLock } from "./instance-lock.ts";
import { isOutdated, MIGRATIONS, SCHEMA_VERSION, migrate, type MigrationStart } from "./migrate.ts";
import type { WriterMessage, WriterOrder } from "./writer-thread.ts";

/**
 * Starts the writer thread on the file and waits until the file is open and migrated; `migrating` is told before
 * it migrates one that an older program made. Rejects with the reason when it cannot be.
 */
export async function startWriterThread(
  file: string,
  migrating?: (start: MigrationStart) => void,
): Promise<BatchTransport> {
  const worker = new Worker(writerThreadEntry, {
    ...threadOptions,
    workerData: { role: "writer", file },
  });
  const thread = new WriterThread(worker, migrating);
  await thread.ready;
  return thread;
}

class WriterThread implements BatchTransport {
  readonly #worker: Worker;
  readonly #waiting: ((reply: BatchReply) => void)[] = [];
  readonly #ended: Promise<void>;
  #lost: BatchReply | null = null;
  readonly ready: Promise<void>;

  constructor(worker: Worker, migrating?: (start: MigrationStart) => void) {
    this.#worker = worker;
    this.ready = new Promise((resolve, reject) => {
      worker.on("message", (message: WriterMessage) => {
        if (message.kind === "ready") resolve();
        else if (message.kind === "unusable") reject(new Error(message.message));
        else if (message.kind === "migrating") migrating?.(message);
        else this.#waiting.shift()?.(message.reply);
      });
      worker.on("error", (error) => {
        this.#lose(error instanceof Error ? error.message : String(error));
        reject(error);
      });
    });
    this.#ended = new Promise((resolve) => {
      worker.once("exit", () => {
        this.#lose("the writer thread has ended");
        resolve();
      });
    });
  }

  send(batch: Parameters<BatchTransport["send"]>[0]): Promise<BatchReply> {
    if (this.#lost !== null) return Promise.resolve(this.#lost);
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#tell({ kind: "batch", operations: batch });
    });
  }

  async close(): Promise<void> {
    if (this.#lost === null) this.#tell({ kind: "close" });
    await this.#ended;
  }

  #tell(order: WriterOrder): void {
    this.#worker.postMessage(order);
  }

  // Whether its last batches were committed nobody knows any more, so they count as failed.
  #lose(message: string): void {
    this.#lost ??= { kind: "failed", message };
    for (const tell of this.#waiting.splice(0)) tell(this.#lost);
  }
}

/**
 * Runs batches in this thread, for a process that writes a few operations and ends: the CLI beside a
 * running daemon.
 */
export function openInlineWriter(file: string): BatchTransport {
  const connection = openWriter(file);
  const runner = startRunner(connection, file);
  return {
    send: (batch) => Promise.resolve(runner.run(batch)),
    close: () => {
      connection.close();
      return Promise.resolve();
    },
  };
}

function startRunner(connection: Connection, file: string): BatchRunner {
  try {
    migrateAlone(connection, file);
    return new BatchRunner(connection);
  } catch (error) {
    connection.close();
    throw error;
  }
}

// Never below a running daemon: it is of the older version, knows nothing of what the newer schema asks of
// every write, and would go on writing.
function migrateAlone(connection: Connection, file: string): void {
  const plan = { schemaSql, version: SCHEMA_VERSION, migrations: MIGRATIONS };
  const lock = isOutdated(connection, plan) ? InstanceLock.acquire(file) : null;
  try {
    migrate(connection, plan);
  } finally {
    lock?.release();
  }
}
