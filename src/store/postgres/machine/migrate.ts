import { postgresSchemaSql } from "../../../assets.ts";
import { Connection } from "./connection.ts";
import type { ServerAddress } from "./server-address.ts";

const HAS_SCHEMA = `SELECT to_regclass('schema_version')::text AS name`;

/** Makes the tables of an empty database. */
export async function makeSchema(server: ServerAddress): Promise<void> {
  const connection = await Connection.open(server.hosts[0] ?? {}, 60_000);
  try {
    const found = await connection.get<{ name: string | null }>(HAS_SCHEMA);
    const isEmpty = (found?.name ?? null) === null;
    if (isEmpty) await connection.command(`BEGIN; ${postgresSchemaSql}; COMMIT`);
  } finally {
    await connection.close();
  }
}
