import { postgresSchemaSql } from "../../../assets.ts";
import { StoreError } from "../../store-error.ts";
import type { Reached } from "./dialer.ts";
import type { AskedPlace } from "./server-address.ts";

/**
 * A step that brings the tables from version `to - 1` to version `to`. A program of version n works on the tables of n
 * and of n - 1, and who may run beside it depends on the kind of step n:
 * - `expand` adds what the program before need not know. Its daemons go on, and may be started again.
 * - `contract` takes away what the program before needs. It is refused while one of its daemons lives; afterwards none
 *   starts any more.
 */
export interface SchemaStep {
  readonly to: number;
  readonly kind: "expand" | "contract";
  /** Taken in this order, and all of them again after a migration that was broken off: doing one twice is harmless. */
  readonly parts: readonly StepPart[];
}

export type StepPart =
  /** Statements that take a moment once they have their locks: `ALTER TABLE … ADD COLUMN IF NOT EXISTS`. */
  | { readonly kind: "change"; readonly sql: string }
  /** An index, made while others write. `on` is what follows ON: table, columns, condition. */
  | { readonly kind: "index"; readonly name: string; readonly on: string }
  /** A statement that changes some hundred rows. It is repeated until it finds none. */
  | { readonly kind: "backfill"; readonly sql: string };

/** The tables as a program knows them. */
export interface SchemaPlan {
  /** Makes the tables of an empty database. */
  readonly schemaSql: string;
  /** The version that the program is written for. */
  readonly version: number;
  readonly steps: readonly SchemaStep[];
}

/** The version of the first release, 0.1.0. No database of an earlier version is in use. */
export const FIRST_VERSION = 5;

/** Every step since {@link FIRST_VERSION}. `schema-postgres.sql` describes the tables after the last step. */
const SCHEMA_STEPS: readonly SchemaStep[] = [];

export const SCHEMA: SchemaPlan = {
  schemaSql: postgresSchemaSql,
  version: SCHEMA_STEPS.at(-1)?.to ?? FIRST_VERSION,
  steps: SCHEMA_STEPS,
};

/** The oldest program that may run once a step has begun. */
export function oldestProgramAfter({ to, kind }: SchemaStep): number {
  return kind === "contract" ? to : to - 1;
}

/** The versions that a database names for its tables. */
export interface SchemaVersion {
  readonly version: number;
  /** The oldest program that may run on them. */
  readonly minProgram: number;
  /** The database to which everything was moved; null if it was not moved. */
  readonly movedTo: string | null;
}

const HAS_SCHEMA = `SELECT to_regclass('schema_version')::text AS name`;
const FIND_VERSION = `
  SELECT version, min_program AS "minProgram", moved_to AS "movedTo" FROM schema_version`;

/** Returns null for an empty database. */
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
