import type { Store } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function upkeepWrites(_sql: BatchSql, _changes: BatchChanges) {
  return {
    keepSecret: missing("keepSecret"),
    eraseExpired: missing("eraseExpired"),
    eraseStale: missing("eraseStale"),
    reclaimSpace: missing("reclaimSpace"),
    tryWrite: missing("tryWrite"),
  } satisfies SetSteps;
}

export function upkeepReads(_sql: Sql) {
  return {
    usedBytes: missing("usedBytes"),
  } satisfies Partial<Store>;
}
