import { spawnSync } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/** The programs of a PostgreSQL: `postgres`, `initdb`, and with a whole one the others. */
export interface PostgresBinaries {
  /** The folder that they lie in. */
  readonly folder: string;
  /** 18 of 18.4. */
  readonly major: number;
}

/** What to say where {@link findPostgres} finds none. */
export const HOW_TO_GET_POSTGRES =
  "there is no PostgreSQL server: run 'apt-get install postgresql', or name the folder of its programs in " +
  "POSTBACKD_TEST_POSTGRES_BIN";

/**
 * The PostgreSQL that tests and scripts start: what POSTBACKD_TEST_POSTGRES_BIN names, else the newest that Debian has
 * installed; null where there is none, or none of that major version.
 */
export function findPostgres(major?: number): PostgresBinaries | null {
  const named = process.env["POSTBACKD_TEST_POSTGRES_BIN"];
  const folders = named === undefined ? debianFolders() : [named];
  const found = folders.flatMap((folder) => binariesIn(folder));
  return found.find((binaries) => major === undefined || binaries.major === major) ?? null;
}

/** The newest first. */
function debianFolders(): readonly string[] {
  const folders = globSync("/usr/lib/postgresql/*/bin");
  return folders.toSorted((a, b) => debianMajor(b) - debianMajor(a));
}

function debianMajor(folder: string): number {
  return Number(basename(dirname(folder)));
}

function binariesIn(folder: string): readonly PostgresBinaries[] {
  if (!existsSync(join(folder, "initdb"))) return [];
  const { stdout } = spawnSync(join(folder, "postgres"), ["--version"], { encoding: "utf8" });
  const major = /^postgres \(PostgreSQL\) (\d+)/.exec(stdout ?? "")?.[1];
  return major === undefined ? [] : [{ folder, major: Number(major) }];
}
