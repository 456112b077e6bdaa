import type { Store } from "../store.ts";
import type { Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";

export function timelineReads(_sql: Sql) {
  return {
    findTimeline: missing("findTimeline"),
  } satisfies Partial<Store>;
}
