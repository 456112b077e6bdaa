import { constants, setPriority } from "node:os";
import { isMainThread } from "node:worker_threads";

import type { Connection } from "./connection.ts";

/** Reads that look for damage, table by table; see {@link FileGuard.check}. */
export function tableCheckReads(connection: Connection) {
  const list = connection
    .prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    .pluck();
  return {
    /** The tables that {@link checkTable} accepts. */
    listTables: (): readonly string[] => ["sqlite_schema", ...list.all()],
    /** Describes a fault of a table and its indexes, in SQLite's words; null when there is none. */
    checkTable(table: string): string | null {
      stepBack();
      const name = table.replaceAll("'", "''");
      const found = connection.pragma(`quick_check('${name}')`, { simple: true });
      return found === "ok" ? null : String(found);
    },
  };
}

// On Linux each thread has its own priority, and the check has its own thread. Elsewhere the priority is the process's.
function stepBack(): void {
  if (isMainThread || process.platform !== "linux") return;
  setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
}
