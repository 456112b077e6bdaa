import { accessSync, constants } from "node:fs";
import { userInfo } from "node:os";

import type { Config } from "../config/config.ts";
import { systemClock } from "../domain/clock/clock.ts";
import type { Database } from "../ops/database.ts";
import type { AuditEntry } from "../store/store.ts";
import { printError } from "./print.ts";

// Asked before a command of root acts as the owner of a database: that is not who gave it.
const USER = userName();

/** The name of the user who gave the command; its number where the system knows no name. */
export function commandUser(): string {
  return USER;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run a user that stands in no list.
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}

/** The entry of the audit about what the user who runs the command does. */
export function byCommand(
  action: AuditEntry["action"],
  subject: string | null,
  details: AuditEntry["details"] = null,
): AuditEntry {
  const actor = { kind: "user", name: commandUser(), address: null } as const;
  return { at: systemClock.now(), actor, action, subject, details };
}

/**
 * Makes a command of root act as the owner of the database, and reports it. So no file belongs to root afterwards, and
 * a link of the owner cannot lead root to another file. Returns the user's name; null if the user stays the same.
 */
export function actAsOwner(
  database: Pick<Database, "becomeOwner">,
  config: Pick<Config, "database">,
): string | null {
  const actsAs = database.becomeOwner();
  if (actsAs !== null)
    printError(`running as ${actsAs}, the owner of ${config.database}, instead of root`);
  return actsAs;
}

/** True where the user that this process acts as may read the file, or write to the folder. */
export function isAllowed(what: "read" | "write", path: string): boolean {
  try {
    accessSync(path, what === "read" ? constants.R_OK : constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
