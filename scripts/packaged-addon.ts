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
import { getRawAsset } from "node:sea";
import { getEnvironmentData, setEnvironmentData } from "node:worker_threads";

import { ADDON_ASSET } from "./program-assets.ts";

/**
 * SQLite's addon in the executable, in the place of the file that better-sqlite3 names: the module is the addon.
 *
 * The system loads an addon from a file only, so it must leave the executable. Homes are read-only and /tmp is noexec
 * on many servers, while the folder of the database is writable by necessity. If that is mounted noexec, the operator
 * names another folder.
 *
 * All threads must load one and the same file: two copies of SQLite in one process drop each other's locks, which
 * corrupts databases (sqlite.org/howtocorrupt.html §2.2.1).
 */

const { POSTBACKD_ADDON_FOLDER: named = "" } = process.env;
let folder = named === "" ? null : named;

/** Has the addon unpacked into `dataFolder` when it is first loaded, unless the operator has named a folder. */
export function prepareNativeAddon(dataFolder: string): void {
  folder ??= dataFolder;
}

// What the main thread has loaded, for threads that start later: by then the file may have been removed, and
// what would be unpacked anew is a second copy to the system.
const LOADED_DESCRIPTOR = "postbackd-addon";

export function loadAddon(): unknown {
  if (folder === null) throw new Error("no folder is set for SQLite's addon");
  const loaded = getEnvironmentData(LOADED_DESCRIPTOR);
  if (typeof loaded === "number") return loadFrom(loaded);
  try {
    const addon = Buffer.from(getRawAsset(ADDON_ASSET));
    const hash = createHash("sha256").update(addon).digest("hex").slice(0, 16);
    const descriptor = openUnpacked(join(folder, `.postbackd-sqlite-${hash}`), addon);
    const exports = loadFrom(descriptor);
    // Stays open as long as the process lives.
    setEnvironmentData(LOADED_DESCRIPTOR, descriptor);
    return exports;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const isFull = ["ENOSPC", "EDQUOT"].includes(codeOf(error));
    const remedy = isFull
      ? `free some space on the disk of the folder ${folder}`
      : `make the folder ${folder} writable, and mount it without noexec`;
    throw new Error(
      `${remedy}: SQLite's addon is loaded from it. ` +
        "Or set POSTBACKD_ADDON_FOLDER to another folder that only you can write to. The " +
        `system's reason: ${reason}`,
      { cause: error },
    );
  }
}

// By descriptor, so that the executed file is the compared file, also if another process renames files in that folder.
function loadFrom(descriptor: number): unknown {
  const module = { exports: {} };
  process.dlopen(module, `/proc/self/fd/${descriptor}`);
  return module.exports;
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

/** Opens the file if it contains the addon and only this user and root can change it. */
function openVerified(file: string, addon: Buffer): number | null {
  const descriptor = openIfReadable(file);
  if (descriptor === null) return null;

  const stats = fstatSync(descriptor);
  const { uid, mode } = stats;
  const isSafe =
    stats.isFile() && (uid === process.geteuid?.() || uid === 0) && (mode & 0o022) === 0;
  if (isSafe && readFileSync(descriptor).equals(addon)) return descriptor;
  closeSync(descriptor);
  return null;
}

/** Null where there is no file, or one that this user cannot read: an earlier version left such files, made by root. */
function openIfReadable(file: string): number | null {
  try {
    // Without O_NONBLOCK the open of a FIFO waits for a writer.
    return openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (["ENOENT", "EACCES", "ELOOP", "ENXIO"].includes(codeOf(error))) return null;
    throw error;
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
