import type { Store } from "../store.ts";
import type { Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";

export function taskListReads(_sql: Sql) {
  return {
    listTasks: missing("listTasks"),
    listReady: missing("listReady"),
    searchTasks: missing("searchTasks"),
  } satisfies Partial<Store>;
}
