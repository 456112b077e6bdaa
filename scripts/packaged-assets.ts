import { createHash, randomUUID } from "node:crypto";
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { getEnvironmentData, setEnvironmentData } from "node:worker_threads";

import type { BuildFacts, ThreadOptions } from "../src/assets.ts";

/**
 * What the executable has in the place of `src/assets.ts`: the same names, the values put in by the
 * build (`scripts/bundle.ts`).
 */

export { dashboardFiles } from "./packed-dashboard.ts";

declare const POSTBACKD_SCHEMA_SQL: string;
declare const POSTBACKD_POSTGRES_SCHEMA_SQL: string;
declare const POSTBACKD_SERVICE_UNIT: string;
declare const POSTBACKD_VERSION: string;
declare const POSTBACKD_BUILD: BuildFacts;

export const schemaSql: string = POSTBACKD_SCHEMA_SQL;

export const postgresSchemaSql: string = POSTBACKD_POSTGRES_SCHEMA_SQL;

export const serviceUnit: string = POSTBACKD_SERVICE_UNIT;

export const executable: string | null = process.execPath;

export const version: string = POSTBACKD_VERSION;

export const buildFacts: BuildFacts = POSTBACKD_BUILD;

// The bundle is the program and its threads: its entry looks which of them it is in.
export const writerThreadEntry: string | URL = __filename;
export const readerThreadEntry: string | URL = __filename;
export const backupThreadEntry: string | URL = __filename;
export const parserThreadEntry: string | URL = __filename;

// And the process that runs commands, too.
export const commandHost: readonly [string, ...string[]] = [process.execPath, "--command-host"];

export const threadOptions: ThreadOptions = {};

const ADDON = /[\\/]better-sqlite3[\\/]prebuilds[\\/][^\\/]+\.node$/;

let isPrepared = false;

/**
 * Has SQLite's addon unpacked into `dataFolder` when it is first loaded.
 *
 * The system loads an addon from a file only, so it must leave the executable. pkg unpacks it below
 * `PKG_NATIVE_CACHE_PATH`, by default `~/.cache`; but it reads that variable once, before any of our
 * code runs on the main thread (`patchDlopen` in pkg 6.23's `prelude/bootstrap-shared.js`), so a program
 * cannot set it for itself. Homes are read-only and /tmp is noexec on many servers, while the folder of
 * the database is writable by necessity. Hence this: `process.dlopen` is given the unpacked file before
 * pkg sees the call. Every thread has its own `process`. An operator who sets `PKG_NATIVE_CACHE_PATH`
 * (data folder mounted noexec) gets pkg's own way.
 *
 * All threads must load one and the same file: two copies of SQLite in one process drop each other's
 * locks, which corrupts databases (sqlite.org/howtocorrupt.html §2.2.1).
 */
export function prepareNativeAddon(dataFolder: string): void {
  if (isPrepared || process.env["PKG_NATIVE_CACHE_PATH"]) return;
  isPrepared = true;

  const load = process.dlopen.bind(process);
  process.dlopen = (module: object, filename: string, ...flags: number[]): void => {
    if (!ADDON.test(filename)) return load(module, filename, ...flags);
    loadUnpacked(filename, { dataFolder, load: (path) => load(module, path, ...flags) });
  };
}

interface Unpacking {
  readonly dataFolder: string;
  readonly load: (path: string) => void;
}

// What the main thread has loaded, for threads that start later: by then the file may have been removed, and
// what would be unpacked anew is a second copy to the system.
const LOADED_DESCRIPTOR = "postbackd-addon";

function loadUnpacked(packedFile: string, { dataFolder, load }: Unpacking): void {
  const loaded = getEnvironmentData(LOADED_DESCRIPTOR);
  if (typeof loaded === "number") return load(`/proc/self/fd/${loaded}`);
  try {
    const addon = readFileSync(packedFile);
    const hash = createHash("sha256").update(addon).digest("hex").slice(0, 16);
    const descriptor = openUnpacked(join(dataFolder, `.postbackd-sqlite-${hash}`), addon);
    // By descriptor: what is executed is what was compared, whoever renames files in that folder.
    load(`/proc/self/fd/${descriptor}`);
    // Stays open as long as the process lives.
    setEnvironmentData(LOADED_DESCRIPTOR, descriptor);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(
      `make the folder ${dataFolder} writable, and mount it without noexec: SQLite's addon is loaded ` +
        "from it. Or set PKG_NATIVE_CACHE_PATH to another folder that only you can write to. The " +
        `system's reason: ${reason}`,
      { cause: error },
    );
  }
}

/** Opens the addon at this path, without `.node`; puts it there if it is missing or is not to be trusted. */
function openUnpacked(path: string, addon: Buffer): number {
  const common = `${path}.node`;
  // For a user who cannot replace what another one has put there: the folder is sticky.
  const own = `${path}-${process.geteuid?.()}.node`;
  const descriptor = openVerified(common, addon) ?? openVerified(own, addon);
  if (descriptor !== null) return descriptor;
  try {
    return putAndOpen(common, addon);
  } catch (error) {
    if (codeOf(error) !== "EPERM") throw error;
    return putAndOpen(own, addon);
  }
}

function putAndOpen(file: string, addon: Buffer): number {
  // Never written in place: another process may be executing the file.
  const newFile = `${file}.${randomUUID()}`;
  try {
    const descriptor = openSync(newFile, "wx");
    try {
      writeFileSync(descriptor, addon);
      // Whatever the umask: it holds no secret, and root may put it there for the user who serves.
      fchmodSync(descriptor, 0o644);
    } finally {
      closeSync(descriptor);
    }
    renameSync(newFile, file);
  } finally {
    rmSync(newFile, { force: true });
  }
  const newDescriptor = openVerified(file, addon);
  if (newDescriptor === null) throw new Error(`${file} is not what was written there`);
  return newDescriptor;
}

/** Opens the file if it holds the addon and nobody but this user and root can change that. */
function openVerified(file: string, addon: Buffer): number | null {
  const descriptor = openIfReadable(file);
  if (descriptor === null) return null;

  const { uid, mode } = fstatSync(descriptor);
  const isSafe = (uid === process.geteuid?.() || uid === 0) && (mode & 0o022) === 0;
  if (isSafe && readFileSync(descriptor).equals(addon)) return descriptor;
  closeSync(descriptor);
  return null;
}

/** Null where there is no file, or one that this user cannot read: an earlier version left such files, made by root. */
function openIfReadable(file: string): number | null {
  try {
    return openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if (["ENOENT", "EACCES", "ELOOP"].includes(codeOf(error))) return null;
    throw error;
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
