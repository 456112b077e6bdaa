import { closeSync, constants, fchownSync, lchownSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";

import { codeOf } from "../../../domain/message-of.ts";

/**
 * Gives what root made beside a database to the user to whom the database belongs, or its folder where there is none yet:
 * otherwise the daemon could not open it. Does nothing for other users.
 */
export function giveToOwner(file: string, database: string): void {
  const owner = ownerFor(database);
  if (owner !== null) lchownSync(file, owner.uid, owner.gid);
}

/**
 * Makes an empty file for SQLite to open, which belongs to a database's owner; does nothing where it is there, and for
 * users that are not root. Throws where a link has its name, which root would follow.
 */
export function makeForOwner(file: string, database: string): void {
  const owner = ownerFor(database);
  if (owner === null) return;
  const { O_CREAT, O_RDWR, O_NOFOLLOW } = constants;
  try {
    const descriptor = openSync(file, O_CREAT | O_RDWR | O_NOFOLLOW, 0o600);
    fchownSync(descriptor, owner.uid, owner.gid);
    closeSync(descriptor);
  } catch (error) {
    if (codeOf(error) !== "ELOOP") throw error;
    throw new Error(`${file} is a symbolic link: take it away`, { cause: error });
  }
}

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
