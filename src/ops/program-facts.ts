import { buildFacts, version } from "../assets.ts";
import { SCHEMA_VERSION } from "../store/sqlite/migration-steps.ts";

/** The versions of the program and its parts. A bug report needs all of them. */
export interface ProgramFacts {
  readonly version: string;
  /** The commit of the sources; null where it is not known. */
  readonly commit: string | null;
  readonly node: string;
  /** Null where the program is run from its sources. */
  readonly sqlite: string | null;
  /** The version of the tables in a file. */
  readonly schema: number;
}

export function programFacts(): ProgramFacts {
  const { commit, sqlite } = buildFacts;
  return { version, commit, node: process.versions.node, sqlite, schema: SCHEMA_VERSION };
}
