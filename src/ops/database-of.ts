import type { Config } from "../config/config.ts";
import type { Database } from "./database.ts";
import { FileDatabase } from "./file-database.ts";
import { ServerDatabase } from "./server-database.ts";

export { DatabaseError } from "./database.ts";

/** Opens nothing. Apart from daemon.ts, because a short command should not wait until the HTTP server is loaded. */
export function databaseOf(config: Config): Database {
  const { server } = config;
  return server === null ? new FileDatabase(config) : new ServerDatabase(server, config);
}
