import { isMainThread } from "node:worker_threads";

import type { Connection } from "./connection.ts";
import { giveWay } from "./priority.ts";

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
      // Where a thread checks tables it does nothing else.
      if (!isMainThread) giveWay();
      const name = table.replaceAll("'", "''");
      const found = connection.pragma(`quick_check('${name}')`, { simple: true });
      return found === "ok" ? null : String(found);
    },
  };
}
