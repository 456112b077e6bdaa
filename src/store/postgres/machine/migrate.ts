import { postgresSchemaSql } from "../../../assets.ts";
import { StoreError } from "../../store-error.ts";
import { connectError, schemaError } from "./connect-error.ts";
import { ConnectionLost, sqlStateOf } from "./connection.ts";
import { reachServer, type Reached } from "./reach-server.ts";
import type { ServerAddress } from "./server-address.ts";

/** The version of the tables that this program makes, and the oldest that it works with. */
const VERSION = { min: 1, max: 1 };

// To make the tables takes a moment, and to change large ones takes longer.
const DEADLINE_MS = 60_000;

/** The versions of the tables before a migration, null where there were none, and after it. */
export interface Migrated {
  readonly from: number | null;
  readonly to: number;
}

/**
 * Makes the tables of an empty database, and leaves those of a version that this program works with. Rejects with a
 * StoreError that names the command or the program that others need.
 */
export async function makeSchema(server: ServerAddress): Promise<void> {
  await withServer(server, async (reached) => {
    const found = (await findVersion(reached)) ?? (await makeTables(reached));
    const fault = schemaError(found, VERSION, reached.host);
    if (fault !== null) throw fault;
    await refuseMoved(reached);
  });
}

/** Makes the tables, or brings them to this program's version. Rejects with a StoreError. */
export function migrateDatabase(server: ServerAddress): Promise<Migrated> {
  return withServer(server, async (reached) => {
    const from = await findVersion(reached);
    // The first version: there is no step yet that leads to another.
    const found = from ?? (await makeTables(reached));
    const fault = schemaError(found, VERSION, reached.host);
    if (fault !== null) throw fault;
    return { from, to: VERSION.max };
  });
}

async function withServer<T>(
  server: ServerAddress,
  use: (reached: Reached) => Promise<T>,
): Promise<T> {
  const reached = await reachServer(server, DEADLINE_MS);
  try {
    return await use(reached);
  } catch (error) {
    const isOfServer = error instanceof ConnectionLost || sqlStateOf(error) !== "";
    throw isOfServer ? connectError(error, reached.host) : error;
  } finally {
    await reached.connection.close();
  }
}

const HAS_SCHEMA = `SELECT to_regclass('schema_version')::text AS name`;
const FIND_VERSION = `SELECT version FROM schema_version`;
const FIND_MOVE = `SELECT moved_to AS "movedTo" FROM schema_version`;

async function findVersion({ connection }: Reached): Promise<number | null> {
  const found = await connection.get<{ readonly name: string | null }>(HAS_SCHEMA);
  if (found === undefined || found.name === null) return null;
  const row = await connection.get<{ readonly version: number }>(FIND_VERSION);
  return row?.version ?? null;
}

async function refuseMoved({ connection, host }: Reached): Promise<void> {
  const found = await connection.get<{ readonly movedTo: string | null }>(FIND_MOVE);
  if (found === undefined || found.movedTo === null) return;
  throw new StoreError(
    "failed",
    `the database ${host.database} at ${host.shown} was moved to ${found.movedTo}: start postbackd with that. If the move was broken off, run it again`,
  );
}

/** Answers the version of the tables, made by this node or by another that was faster. */
async function makeTables(reached: Reached): Promise<number | null> {
  const { connection } = reached;
  try {
    await connection.command(`BEGIN; ${postgresSchemaSql}; COMMIT`);
  } catch (error) {
    await connection.command("ROLLBACK");
    // Nodes of a new cluster start at the same moment: the second one's tables are there already.
    if ((await findVersion(reached)) === null) throw error;
  }
  return findVersion(reached);
}
