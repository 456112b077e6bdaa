import { StoreError } from "../../store-error.ts";
import type { AskedPlace } from "./connect-error.ts";
import type { Reached } from "./reach-server.ts";
import { FIRST_VERSION } from "./schema-steps.ts";

/** The versions that a database names for its tables. */
export interface SchemaVersion {
  readonly version: number;
  /** The oldest program that may run on them. */
  readonly minProgram: number;
  /** Where everything was moved to; null where it is here. */
  readonly movedTo: string | null;
}

const HAS_SCHEMA = `SELECT to_regclass('schema_version')::text AS name`;
const FIND_VERSION = `
  SELECT version, min_program AS "minProgram", moved_to AS "movedTo" FROM schema_version`;

/** Answers null where there are no tables. */
export async function findSchemaVersion({ connection }: Reached): Promise<SchemaVersion | null> {
  const found = await connection.get<{ readonly name: string | null }>(HAS_SCHEMA);
  if (found === undefined || found.name === null) return null;
  return (await connection.get<SchemaVersion>(FIND_VERSION)) ?? null;
}

/**
 * Refuses a database on which a program of that version cannot work; null for one on which it can. A program works on
 * the tables of its own version and of the one before, and on newer ones for as long as they allow it.
 */
export function schemaError(
  found: SchemaVersion | null,
  program: number,
  { shown, database }: Pick<AskedPlace, "shown" | "database">,
): StoreError | null {
  const text = schemaText(found, program);
  return text === null
    ? null
    : new StoreError("failed", `the database ${database} at ${shown} ${text}`);
}

function schemaText(found: SchemaVersion | null, program: number): string | null {
  if (found === null) {
    return "has no tables of postbackd: make them with 'postbackd database migrate'";
  }
  const { version, minProgram, movedTo } = found;
  if (movedTo !== null) {
    return `was moved to ${movedTo}: start postbackd with that. If the move was broken off, run it again`;
  }
  if (version < FIRST_VERSION) {
    return (
      `has the tables of a postbackd before 0.1.0 (version ${version}, this program works on ${FIRST_VERSION} or later), ` +
      "which no release migrates: start with an empty database"
    );
  }
  if (version < program - 1) {
    return (
      `has the tables of an older version (${version}, this program works on ${program - 1} and ${program}): run ` +
      "'postbackd database migrate' with this program"
    );
  }
  if (minProgram <= program) return null;
  return (
    `has the tables of a newer version (${version}) that need a program of version ${minProgram}, and this one is of ` +
    `${program}: start the newer postbackd`
  );
}
