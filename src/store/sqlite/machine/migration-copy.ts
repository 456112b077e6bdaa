import { chmodSync, existsSync, renameSync, rmSync } from "node:fs";
import { dirname } from "node:path";

import { messageOf } from "../../../domain/error.ts";
import { syncToDisk, type Connection } from "./connection.ts";

/** The copy of a file as it was before a migration: where it is, or will be. */
export interface MigrationCopy {
  readonly path: string;
  /** True when an earlier try made it: it holds what the file holds. */
  readonly isThere: boolean;
}

/**
 * Finds the place for the copy of a file of this version: `FILE.vN.bak`, or `FILE.vN.2.bak` and so on if another file
 * has that name. A copy that an earlier try made is used again: a migration that fails at every start must not fill the
 * disk.
 */
export function findMigrationCopy(connection: Connection, version: number): MigrationCopy {
  for (let number = 1; ; number++) {
    const path = `${connection.name}.v${version}${number === 1 ? "" : `.${number}`}.bak`;
    if (!existsSync(path)) return { path, isThere: false };
    if (isCopyOf(connection, path)) return { path, isThere: true };
  }
}

/** Makes the copy, as a whole or not at all. */
export function makeMigrationCopy(connection: Connection, path: string): void {
  // It has another name until it is whole.
  const part = unfinishedCopy(path);
  rmSync(part, { force: true });
  try {
    connection.prepare("VACUUM INTO ?").run(part);
    chmodSync(part, 0o600);
    // VACUUM INTO does not sync, and after a power cut the migrated file would be all that is left.
    syncToDisk(part);
    renameSync(part, path);
    syncToDisk(dirname(path));
  } catch (error) {
    // Half a copy would keep the disk as full as it was.
    rmSync(part, { force: true });
    throw new Error(toCopyMessage(path, error), { cause: error });
  }
}

/** Where the copy is while it is made. */
export function unfinishedCopy(path: string): string {
  return `${path}.part`;
}

function toCopyMessage(path: string, error: unknown): string {
  const reason = messageOf(error);
  const remedy = "make room for as much as the database holds, then start again";
  return `the database cannot be copied to ${path} before it is migrated (${reason}): ${remedy}`;
}

/** Tells whether a file is whole and holds the same, row by row. */
function isCopyOf(connection: Connection, path: string): boolean {
  try {
    connection.prepare("ATTACH ? AS copy").run(path);
  } catch {
    // It is no database.
    return false;
  }
  try {
    return isAttachedCopy(connection);
  } catch {
    // It cannot be read.
    return false;
  } finally {
    connection.exec("DETACH copy");
  }
}

function isAttachedCopy(connection: Connection): boolean {
  for (const name of ["application_id", "user_version"]) {
    if (pragma(connection, `main.${name}`) !== pragma(connection, `copy.${name}`)) return false;
  }
  if (pragma(connection, "copy.quick_check") !== "ok") return false;
  const schema = schemaOf(connection, "main");
  if (JSON.stringify(schemaOf(connection, "copy")) !== JSON.stringify(schema)) return false;
  const tables = schema.filter(({ type }) => type === "table");
  return tables.every(({ name }) => hasSameRows(connection, name));
}

function pragma(connection: Connection, name: string): unknown {
  return connection.pragma(name, { simple: true });
}

interface SchemaRow {
  readonly type: string;
  readonly name: string;
  readonly sql: string | null;
}

function schemaOf(connection: Connection, database: "main" | "copy"): readonly SchemaRow[] {
  const sql = `SELECT type, name, sql FROM ${database}.sqlite_schema ORDER BY type, name`;
  return connection.prepare<[], SchemaRow>(sql).all();
}

interface Column {
  readonly name: string;
  /** Its place in the primary key; 0 for other columns. */
  readonly pk: number;
}

function hasSameRows(connection: Connection, table: string): boolean {
  const columns = connection.prepare<[], Column>(`PRAGMA main.table_info(${quoted(table)})`).all();
  const list = connection.prepare<[], { wr: number }>(`PRAGMA main.table_list(${quoted(table)})`);
  const keys = columns.filter(({ pk }) => pk > 0).map(({ name }) => quoted(name));
  // The key finds each row at once.
  const key = list.get()?.wr === 1 ? keys : ["rowid"];
  const isSame = [
    ...key.map((name) => `theirs.${name} = ours.${name}`),
    ...columns.map(({ name }) => `theirs.${quoted(name)} IS ours.${quoted(name)}`),
  ].join(" AND ");
  const counts = connection
    .prepare<[], [ours: number, theirs: number, same: number]>(`
      SELECT
        (SELECT count(*) FROM main.${quoted(table)}),
        (SELECT count(*) FROM copy.${quoted(table)}),
        (SELECT count(*) FROM main.${quoted(table)} AS ours
          WHERE EXISTS (SELECT 1 FROM copy.${quoted(table)} AS theirs WHERE ${isSame}))`)
    .raw()
    .get();
  return counts !== undefined && counts[0] === counts[1] && counts[0] === counts[2];
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
