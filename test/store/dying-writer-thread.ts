import { parentPort, workerData } from "node:worker_threads";

import { openWriter } from "../../src/store/sqlite/machine/connection.ts";
import { makeSchema } from "../../src/store/sqlite/machine/schema.ts";
import type { WriterMessage, WriterOrder } from "../../src/store/sqlite/writer-thread.ts";
import { newBatchRunner } from "../../src/store/sqlite/writes.ts";

/** A writer thread that commits its first batch and ends before its reply. */

const port = parentPort;
if (port === null) throw new Error("dying-writer-thread.ts runs as a worker thread only");

const { file } = workerData as { readonly file: string };
const connection = openWriter(file);
makeSchema(connection);
const runner = newBatchRunner(connection);
port.on("message", (order: WriterOrder) => {
  if (order.kind === "batch") runner.run(order.operations);
  connection.close();
  process.exit();
});
port.postMessage({ kind: "ready" } satisfies WriterMessage);
