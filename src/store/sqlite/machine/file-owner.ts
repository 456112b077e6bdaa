import {
  closeSync,
  fchownSync,
  lchownSync,
  lstatSync,
  openSync,
  readlinkSync,
  realpathSync,
  statSync,
  type Stats,
} from "node:fs";
import { dirname, resolve } from "node:path";

import { codeOf } from "../../../domain/error.ts";

/**
 * Gives what root made beside a database to the user to whom the database belongs, or its folder where there is none yet:
 * otherwise the daemon could not open it. Does nothing for other users.
 */
export function giveToOwner(file: string, database: string): void {
  const owner = ownerFor(database);
  if (owner !== null) lchownSync(file, owner.uid, owner.gid);
}

/**
 * Makes an empty file for SQLite to open, if it is missing; root gives it to the owner of the database. Throws if a link
 * has its name: SQLite would follow the link and make a file wherever it leads.
 */
export function makeForOwner(file: string, database: string): void {
  try {
    // Never opens a file that is there: closing it would drop the locks that this process has on it.
    const descriptor = openSync(file, "wx", 0o600);
    const owner = ownerFor(database);
    if (owner !== null) fchownSync(descriptor, owner.uid, owner.gid);
    closeSync(descriptor);
  } catch (error) {
    // SQLite's own open reports everything else.
    if (codeOf(error) !== "EEXIST") return;
    if (lstatSync(file).isSymbolicLink()) {
      throw new Error(`${file} is a symbolic link: remove it`, { cause: error });
    }
  }
}

/**
 * Refuses, as root, a database whose file, `-wal`, `-shm` or journal is behind a link of another user. That user may aim
 * the link at any file of the system.
 */
export function refuseForeignLinks(database: string): void {
  if (process.geteuid?.() !== 0) return;
  const { end, foreign } = followLinks(database);
  const beside = ["-wal", "-shm", "-journal"].map(
    (suffix) => followLinks((end ?? database) + suffix).foreign,
  );
  const [link] = [foreign, ...beside].filter((each) => each !== null);
  if (link === undefined) return;
  throw new Error(
    `${link.path} is a symbolic link of user ${link.stats.uid}, which root does not follow: name the file itself, or run ` +
      "this as that user",
  );
}

interface Links {
  /** The first name on the way that is not a link; a file may be missing there. Null for links that lead in a circle. */
  readonly end: string | null;
  /** The first link on the way that another user than root made. */
  readonly foreign: { readonly path: string; readonly stats: Stats } | null;
}

/** Follows the links from this name, also to a file that is missing. */
export function followLinks(file: string): Links {
  let end = file;
  let foreign: Links["foreign"] = null;
  for (let linksLeft = LINKS_MAX; linksLeft > 0; linksLeft--) {
    const folder = dirname(end);
    // Below a file, lstat throws.
    const isThere = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
    const stats = isThere ? lstatSync(end, { throwIfNoEntry: false }) : undefined;
    if (stats?.isSymbolicLink() !== true) return { end, foreign };
    if (stats.uid !== 0) foreign ??= { path: end, stats };
    end = resolve(realpathSync(folder), readlinkSync(end));
  }
  return { end: null, foreign };
}

// As in Linux.
const LINKS_MAX = 40;

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Null where it is this user's anyway. */
function ownerFor(database: string): Owner | null {
  if (process.geteuid?.() !== 0) return null;
  const found =
    statSync(database, { throwIfNoEntry: false }) ??
    statSync(dirname(database), { throwIfNoEntry: false });
  return found === undefined || found.uid === 0 ? null : found;
}
