import type { Config } from "../config/config.ts";
import type { Database } from "./database.ts";
import { FileDatabase } from "./file-database.ts";
import { ServerDatabase } from "./server-database.ts";

export { DatabaseError } from "./database.ts";

/**
 * The database that a configuration names. Nothing is opened yet. This is apart from daemon.ts because a command that
 * only looks something up should not wait until the HTTP server and all the rest are loaded.
 */
export function databaseOf(config: Config): Database {
  const { server } = config;
  return server === null ? new FileDatabase(config) : new ServerDatabase(server, config);
}
