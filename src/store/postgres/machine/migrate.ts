import { postgresSchemaSql } from "../../../assets.ts";
import { StoreError } from "../../store-error.ts";
import { Connection, sqlStateOf } from "./connection.ts";
import type { ServerAddress } from "./server-address.ts";

/** The version of the tables that this program makes. It works on those of the version before, too. */
export const SCHEMA_VERSION = 1;

/** How the tables were brought to this program's version: from null where there were none. */
export interface SchemaChange {
  readonly from: number | null;
  readonly to: number;
}

const HAS_SCHEMA = `SELECT to_regclass('schema_version')::text AS name`;
const FIND_VERSION = `
  SELECT version, min_program AS "minProgram", moved_to AS "movedTo" FROM schema_version`;

// An index of a large table takes its time.
const STATEMENT_MS = 600_000;
const DUPLICATES = new Set(["42P07", "42710", "23505"]);

/** Makes the tables of an empty database; those that are there are only checked. Throws a StoreError that says what to do. */
export async function prepareSchema(server: ServerAddress): Promise<void> {
  await withConnection(server, async (connection) => {
    const found = await findVersion(connection);
    if (found === null) await makeTables(connection);
    else refuseOther(found);
  });
}

/** Makes the tables of an empty database, or brings older ones to this program's version. */
export function migrateDatabase(server: ServerAddress): Promise<SchemaChange> {
  return withConnection(server, async (connection) => {
    const found = await findVersion(connection);
    if (found === null) await makeTables(connection);
    else refuseOther(found);
    return { from: found?.version ?? null, to: SCHEMA_VERSION };
  });
}

interface FoundVersion {
  readonly version: number;
  /** The oldest program that may write. */
  readonly minProgram: number;
  readonly movedTo: string | null;
}

async function findVersion(connection: Connection): Promise<FoundVersion | null> {
  const found = await connection.get<{ name: string | null }>(HAS_SCHEMA);
  if ((found?.name ?? null) === null) return null;
  return (await connection.get<FoundVersion>(FIND_VERSION)) ?? null;
}

function refuseOther({ version, minProgram, movedTo }: FoundVersion): void {
  if (movedTo !== null) {
    throw new StoreError(
      "failed",
      `this database was moved to ${movedTo}: start postbackd with that`,
    );
  }
  if (minProgram > SCHEMA_VERSION) {
    throw new StoreError(
      "failed",
      `the database's tables have version ${version}, and this program knows ${SCHEMA_VERSION}: start it with a newer postbackd`,
    );
  }
  if (version < SCHEMA_VERSION - 1) {
    throw new StoreError(
      "failed",
      `the database's tables have version ${version}, and this program needs ${SCHEMA_VERSION - 1} at least: run 'postbackd database migrate'`,
    );
  }
}

async function makeTables(connection: Connection): Promise<void> {
  try {
    await connection.command(`BEGIN; ${postgresSchemaSql}; COMMIT`);
  } catch (error) {
    await connection.command("ROLLBACK");
    // Another node that started at the same moment was first.
    if (!DUPLICATES.has(sqlStateOf(error))) throw error;
    const found = await findVersion(connection);
    if (found === null) throw error;
    refuseOther(found);
  }
}

async function withConnection<Value>(
  server: ServerAddress,
  work: (connection: Connection) => Promise<Value>,
): Promise<Value> {
  const connection = await Connection.open(server.hosts[0] ?? {}, STATEMENT_MS);
  try {
    return await work(connection);
  } finally {
    await connection.close();
  }
}
