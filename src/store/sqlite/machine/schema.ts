import { schemaSql } from "../../../assets.ts";
import type { Connection } from "./connection.ts";

/**
 * The version that `schema.sql` describes. It is the version of the first release, 0.1.0: no file of an earlier version
 * is in use, so no migration exists.
 */
export const SCHEMA_VERSION = 11;

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

/** Where a file was moved to. */
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

/** Where the file was moved to; null for one that was not. */
export function findMoveMark(connection: Connection): MoveMark | null {
  const version = Number(connection.pragma("user_version", { simple: true }));
  if (version < MOVED) return null;
  const mark = connection.prepare<[], MoveMark>("SELECT id, database AS 'to' FROM moved").get();
  return mark ?? null;
}
