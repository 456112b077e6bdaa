import { tmpdir } from "node:os";
import { inspect } from "node:util";

import { isError, messageOf } from "../domain/message-of.ts";

/**
 * Describes an error that no command expected, for a user: its message and a remedy. The stack follows if
 * POSTBACKD_LOG_LEVEL is `debug`.
 */
export function faultText(error: unknown, env: NodeJS.ProcessEnv): string {
  const text = `${messageOf(error)}; ${remedyOf(error)}`;
  return env["POSTBACKD_LOG_LEVEL"] === "debug" ? `${text}\n${inspect(error)}` : text;
}

function remedyOf(error: unknown): string {
  const { code = "", syscall = "" } = isError(error) ? (error as NodeJS.ErrnoException) : {};
  if (syscall === "uv_cwd") return "change to a folder that exists, with cd, and run this again";
  if (syscall === "mkdtemp") {
    return `make ${tmpdir()} a folder that this user can write to, or name another folder in TMPDIR`;
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
