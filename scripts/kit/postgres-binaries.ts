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

/** None where the server's user may not run them. */
function binariesIn(folder: string): readonly PostgresBinaries[] {
  if (!existsSync(join(folder, "initdb"))) return [];
  const options = { ...serverUser(), cwd: "/", encoding: "utf8" } as const;
  const { status, stdout } = spawnSync(join(folder, "postgres"), ["--version"], options);
  const major = status === 0 ? /^postgres \(PostgreSQL\) (\d+)/.exec(stdout)?.[1] : undefined;
  return major === undefined ? [] : [{ folder, major: Number(major) }];
}

/** A user of this machine, by number. */
interface User {
  readonly uid: number;
  readonly gid: number;
}

/** Who runs the server, because it refuses to run as root: null is whoever runs this. */
export function serverUser(): User | null {
  if (process.getuid?.() !== 0) return null;
  // The one that Debian's package makes, else the one that owns nothing.
  return userOf("postgres") ?? userOf("nobody");
}

function userOf(name: string): User | null {
  const [uid, gid] = ["-u", "-g"].map((which) => {
    const { status, stdout } = spawnSync("id", [which, name], { encoding: "utf8" });
    return status === 0 ? Number(stdout) : null;
  });
  return typeof uid === "number" && typeof gid === "number" ? { uid, gid } : null;
}
