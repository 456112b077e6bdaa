import Database from "better-sqlite3";

import { schemaSql } from "../../../assets.ts";
import { openWriter, type Connection } from "./connection.ts";
import { DamageError, damagedFile } from "./file-check.ts";

/**
 * The version that `schema.sql` describes. 0.1.0 is not released, so every change of the tables raises this number, and
 * no migration exists.
 */
export const SCHEMA_VERSION = 13;

/**
 * Opens the file for writing, with the tables of this version in it. Throws for a file of another version, and for a
 * file with other tables or indexes than `schema.sql`.
 */
export function openWithSchema(file: string): Connection {
  const connection = openWriter(file);
  try {
    makeSchema(connection);
    const fault = schemaFault(connection);
    if (fault !== null) throw new DamageError(damagedFile(file, fault));
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

/**
 * Makes the tables of a new file, completely or not at all, and throws for a file that this program cannot work on. The
 * first migration after 0.1.0 belongs into this transaction, after a copy of the file.
 */
export function makeSchema(connection: Connection): void {
  if (requireVersion(connection) === SCHEMA_VERSION) return;
  connection
    .transaction(() => {
      // Another process may have made the tables before this transaction got its lock.
      if (requireVersion(connection) === SCHEMA_VERSION) return;
      connection.exec(schemaSql);
      connection.pragma(`user_version = ${SCHEMA_VERSION}`);
    })
    .immediate();
}

/** Returns the version of the file, which is this program's or 0 for a new file. */
function requireVersion(connection: Connection): number {
  const version = schemaVersionOf(connection);
  const moved = findMoveMark(connection);
  if (moved !== null) {
    throw new Error(
      `${connection.name} was moved to ${moved.to}: start postbackd with that. If the move was broken off, run it again`,
    );
  }
  if (version > SCHEMA_VERSION) {
    throw new Error(
      `${connection.name} has schema version ${version}, this program knows ${SCHEMA_VERSION}: start it with a newer postbackd`,
    );
  }
  if (version > 0 && version < SCHEMA_VERSION) {
    throw new Error(`${connection.name} ${unreleasedVersion(version)}`);
  }
  return version;
}

export function schemaVersionOf(connection: Connection): number {
  return Number(connection.pragma("user_version", { simple: true }));
}

/** The predicate of the message about a file of a version before 0.1.0, with the remedy. */
export function unreleasedVersion(version: number): string {
  return (
    `has schema version ${version} of a postbackd before 0.1.0, which no release migrates (this program needs ` +
    `${SCHEMA_VERSION}): move it aside and start with a new file`
  );
}

interface SchemaRow {
  readonly type: string;
  readonly name: string;
  readonly table: string;
  readonly sql: string | null;
}

const SCHEMA = 'SELECT type, name, tbl_name AS "table", sql FROM sqlite_schema ORDER BY type, name';

/**
 * Describes how the tables and indexes of a file differ from `schemaSql`; null if they do not differ. Tables of other
 * programs are allowed: Litestream makes some.
 */
export function schemaFault(connection: Connection): string | null {
  const model = new Database(":memory:");
  try {
    model.exec(schemaSql);
    const wanted = model.prepare<[], SchemaRow>(SCHEMA).all();
    const tables = new Set(wanted.map(({ table }) => table));
    const found = connection.prepare<[], SchemaRow>(SCHEMA).all();
    const ours = found.filter(({ table }) => tables.has(table));
    const difference = differenceOf(wanted, ours);
    return difference && `${difference} is not as this version of postbackd makes it`;
  } finally {
    model.close();
  }
}

/** The first entry that only one of the two has, or that differs. */
function differenceOf(wanted: readonly SchemaRow[], found: readonly SchemaRow[]): string | null {
  const [first, second] = [texts(wanted), texts(found)];
  for (const [name, text] of first) if (second.get(name) !== text) return name;
  for (const name of second.keys()) if (!first.has(name)) return name;
  return null;
}

function texts(rows: readonly SchemaRow[]): ReadonlyMap<string, string | null> {
  return new Map(rows.map(({ type, name, sql }) => [`${type} ${name}`, normalOf(sql)]));
}

// SQLite keeps comments and white space as they were written, and a migrated file has others.
function normalOf(sql: string | null): string | null {
  if (sql === null) return null;
  return sql
    .replace(/--.*$/gm, "")
    .replace(/\s+/g, " ")
    .replace(/ ?([(),]) ?/g, "$1");
}

/** The database to which a file was moved. */
interface MoveMark {
  /** Names the move, on both sides. */
  readonly id: string;
  /** The database that has everything now, without its password. */
  readonly to: string;
}

// Above every version of the schema: programs of any version refuse such a file.
const MOVED = 1_000_000;

/** Marks a file whose data is in another database from now on: no daemon starts on it any more. */
export function markMoved(connection: Connection, { id, to }: MoveMark): void {
  const version = Number(connection.pragma("user_version", { simple: true }));
  connection
    .transaction(() => {
      connection.exec("CREATE TABLE moved (id TEXT NOT NULL, database TEXT NOT NULL) STRICT");
      connection.prepare("INSERT INTO moved VALUES (?, ?)").run(id, to);
      connection.pragma(`user_version = ${MOVED + version}`);
    })
    .immediate();
}

/** Takes the mark away, when the move came to nothing. */
export function unmarkMoved(connection: Connection): void {
  const version = Number(connection.pragma("user_version", { simple: true }));
  connection
    .transaction(() => {
      connection.exec("DROP TABLE moved");
      connection.pragma(`user_version = ${version - MOVED}`);
    })
    .immediate();
}

/** The database to which the file was moved; null if it was not moved. */
export function findMoveMark(connection: Connection): MoveMark | null {
  const version = Number(connection.pragma("user_version", { simple: true }));
  if (version < MOVED) return null;
  const mark = connection.prepare<[], MoveMark>("SELECT id, database AS 'to' FROM moved").get();
  return mark ?? null;
}
