import type { Store } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function deliveryWrites(_sql: BatchSql, _changes: BatchChanges) {
  return {
    recordAttempt: missing("recordAttempt"),
    redeliver: missing("redeliver"),
  } satisfies SetSteps;
}

export function deliveryReads(_sql: Sql) {
  return {
    listDeliveries: missing("listDeliveries"),
    findTaskDeliveries: missing("findTaskDeliveries"),
  } satisfies Partial<Store>;
}
