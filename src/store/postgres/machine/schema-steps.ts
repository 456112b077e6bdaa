import { postgresSchemaSql } from "../../../assets.ts";

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
export const FIRST_VERSION = 4;

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
