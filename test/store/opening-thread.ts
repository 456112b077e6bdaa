import { parentPort } from "node:worker_threads";

import { schemaSql } from "../../src/assets.ts";
import { openWriter } from "../../src/store/sqlite/machine/connection.ts";
import { migrate } from "../../src/store/sqlite/machine/migrate.ts";
import { MIGRATIONS, SCHEMA_VERSION } from "../../src/store/sqlite/migration-steps.ts";

/**
 * A thread that opens database files for a test: each one that it is told, for writing, as the daemon and the
 * admin commands do. It answers `opened`, or why it could not.
 */

parentPort?.on("message", (file: string) => {
  parentPort?.postMessage(open(file));
});

function open(file: string): string {
  try {
    const connection = openWriter(file);
    migrate(connection, { schemaSql, version: SCHEMA_VERSION, migrations: MIGRATIONS });
    connection.close();
    return "opened";
  } catch (error) {
    return String(error).replace(file, "FILE");
  }
}
