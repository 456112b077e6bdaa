/** True for an error of any realm: Jest and vitest's `vmThreads` run programs in a realm of their own. */
export function isError(value: unknown): value is Error {
  if (typeof value !== "object" || value === null) return false;
  return "message" in value && typeof value.message === "string";
}

export function messageOf(error: unknown): string {
  return isError(error) ? error.message : String(error);
}

/** The system's name for what went wrong, such as `ENOENT`; null where the error has none. */
export function codeOf(error: unknown): string | null {
  return isError(error) && "code" in error ? String(error.code) : null;
}

interface SystemError extends Error {
  readonly code?: string;
  readonly syscall?: string;
}

/** The next step for a user after an error of the system or of SQLite. */
export function remedyOf(error: unknown): string {
  const { code = "", syscall = "" } = isError(error) ? (error as SystemError) : {};
  if (syscall === "uv_cwd") return "change to a folder that exists, with cd, and run this again";
  if (syscall === "mkdtemp") {
    return "make that folder one that this user can write to, or name another folder in TMPDIR";
  }
  return REMEDIES[code] ?? UNKNOWN;
}

const SPACE = "free some space on that disk, and run this again";
const RIGHTS = "run this as the user who owns it, or give this user the right";
const FILES = "raise the limit of open files (ulimit -n), and run this again";
const UNKNOWN =
  "this is an error of postbackd itself: with POSTBACKD_LOG_LEVEL=debug it shows where, for a report";

const REMEDIES: Readonly<Record<string, string>> = {
  EACCES: RIGHTS,
  EPERM: RIGHTS,
  EROFS: "name a file on a file system that can be written to",
  ENOSPC: SPACE,
  EDQUOT: SPACE,
  SQLITE_FULL: SPACE,
  EMFILE: FILES,
  ENFILE: FILES,
  ENOENT: "make what it names, or name something else",
  ENOTDIR: "make what it names, or name something else",
  EISDIR: "name a file, not a folder",
  ENAMETOOLONG: "use a shorter name",
};

/**
 * Does each step in its order, even after one that threw: for closing things, where none may keep the next from
 * closing. The first steps run before this returns, up to one that has to be waited for. Rejects with the error, or
 * with an AggregateError when several steps threw.
 */
export async function everyStep(steps: readonly (() => unknown)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const step of steps) {
    try {
      const done = step();
      if (isPromise(done)) await done;
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 1) throw new AggregateError(errors, `${errors.length} steps failed`);
  if (errors.length === 1) throw errors[0];
}

/** True for a promise of any realm or class. */
export function isPromise(value: unknown): value is Promise<unknown> {
  if (typeof value !== "object" || value === null) return false;
  return "then" in value && typeof value.then === "function";
}
