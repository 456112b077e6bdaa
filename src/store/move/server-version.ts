import type { Connection as Server } from "../postgres/machine/connection.ts";
import { SCHEMA } from "../postgres/machine/schema.ts";
import type { ServerAddress } from "../postgres/machine/server-address.ts";
import { MoveError } from "./report.ts";

const FIND_VERSION = `SELECT version FROM schema_version`;

/** Throws unless the tables on the server are those that this program's moves know. */
export async function requireOwnVersion(server: Server, { shown }: ServerAddress): Promise<void> {
  const version = (await server.get<{ version: number }>(FIND_VERSION))?.version ?? SCHEMA.version;
  if (version === SCHEMA.version) return;
  throw new MoveError(
    version < SCHEMA.version
      ? `the tables in ${shown} are of an older version: run 'postbackd database migrate' first`
      : `the tables in ${shown} were made by a newer postbackd: move with that`,
  );
}
