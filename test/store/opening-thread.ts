import { parentPort } from "node:worker_threads";

import { openWriter } from "../../src/store/sqlite/machine/connection.ts";
import { makeSchema } from "../../src/store/sqlite/machine/schema.ts";

/**
 * A thread that opens database files for writing, as the daemon and the
 * admin commands do. It answers `opened`, or why it could not.
 */

parentPort?.on("message", (file: string) => {
  parentPort?.postMessage(open(file));
});

function open(file: string): string {
  try {
    const connection = openWriter(file);
    makeSchema(connection);
    connection.close();
    return "opened";
  } catch (error) {
    return String(error).replace(file, "FILE");
  }
}
