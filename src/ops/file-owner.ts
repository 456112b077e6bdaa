import { statSync, type Stats } from "node:fs";
import { userInfo } from "node:os";
import { dirname } from "node:path";

import { followLinks } from "../store/sqlite/machine/file-owner.ts";

/**
 * Makes this process, when it is root's, the user to whom a database file belongs, or to whom its folder belongs where
 * there is no file yet; for good. So nothing that it leaves there is root's, and nothing that this user has put there,
 * such as a link, is followed with root's rights. Answers the user's name; null when it stays what it was: it is not
 * root's, the file is, or that user cannot reach the file.
 */
export function becomeOwner(file: string): string | null {
  if (process.geteuid?.() !== 0) return null;
  // The user who made a link may aim it at any file, so root acts as that user and not as the owner of the file.
  const owner = followLinks(file).foreign?.stats ?? look(file) ?? look(dirname(file));
  if (owner === null || owner.uid === 0 || !isReachedBy(owner, dirname(file))) return null;
  process.setgroups?.([owner.gid]);
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
  return nameOfThisUser();
}

/** The name of the user that this process acts as; the number where nobody has given a name to it. */
function nameOfThisUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.geteuid?.()}`;
  }
}

function look(path: string): Stats | null {
  return statSync(path, { throwIfNoEntry: false }) ?? null;
}

/** Tries it as that user: only the system knows all of its rules. */
function isReachedBy({ uid, gid }: Stats, folder: string): boolean {
  const groupBefore = process.getegid?.() ?? 0;
  process.setegid?.(gid);
  process.seteuid?.(uid);
  try {
    return look(folder) !== null;
  } catch {
    return false;
  } finally {
    process.seteuid?.(0);
    process.setegid?.(groupBefore);
  }
}
