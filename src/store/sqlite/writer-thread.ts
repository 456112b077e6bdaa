import { parentPort, workerData } from "node:worker_threads";

import { messageOf } from "../../domain/error.ts";
import type { BatchReply, Operation } from "../common/batch.ts";
import { OpenFiles } from "./machine/open-files.ts";
import { openWithSchema } from "./machine/schema.ts";
import { newBatchRunner } from "./writes.ts";

/**
 * The entry of the writer thread, the only thread of the daemon that writes. fsync, checkpoints, deletes and vacuum
 * happen here and never hold up a request on the main thread.
 */

/** The thread's messages: `ready` or `unusable` once, then one reply for each batch, with its id. */
export type WriterMessage =
  | { readonly kind: "ready" }
  | { readonly kind: "unusable"; readonly message: string }
  | {
      readonly kind: "reply";
      readonly id: number;
      readonly reply: BatchReply;
    };

/** Orders to the thread: batches to run, then `close`. */
export type WriterOrder =
  | { readonly kind: "batch"; readonly id: number; readonly operations: readonly Operation[] }
  | { readonly kind: "close" };

const port = parentPort;
if (port === null) throw new Error("writer-thread.ts runs as a worker thread only");

function say(message: WriterMessage): void {
  port?.postMessage(message);
}

try {
  // sqlite-store.ts sets this; nothing else starts this thread.
  const { file } = workerData as { readonly file: string };
  const connection = openWithSchema(file);
  const files = new OpenFiles(file);
  const runner = newBatchRunner(connection, { fileTrouble: () => files.trouble() });
  port.on("message", (order: WriterOrder) => {
    if (order.kind === "batch") {
      say({ kind: "reply", id: order.id, reply: runner.run(order.operations) });
      return;
    }
    connection.close();
    port.close();
  });
  say({ kind: "ready" });
} catch (error) {
  say({ kind: "unusable", message: messageOf(error) });
  port.close();
}
