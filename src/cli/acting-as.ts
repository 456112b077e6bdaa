import { accessSync, constants } from "node:fs";

import type { Config } from "../config/config.ts";
import type { Database } from "../daemon/database.ts";
import { printError } from "./print.ts";

/**
 * Makes a command of root act as the user to whom the database belongs, and says so: nothing that it leaves is root's,
 * and no link that this user has made leads root anywhere. Answers the user's name; null where it stays what it was.
 */
export function actAsOwner(
  database: Pick<Database, "becomeOwner">,
  config: Pick<Config, "database">,
): string | null {
  const actsAs = database.becomeOwner();
  if (actsAs !== null)
    printError(`acting as ${actsAs}, to whom ${config.database} belongs, and not as root`);
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
