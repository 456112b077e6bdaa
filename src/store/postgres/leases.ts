import type { Store } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function leaseWrites(_sql: BatchSql, _changes: BatchChanges) {
  return {
    claimLeases: missing("claimLeases"),
    extendLeases: missing("extendLeases"),
    endLeases: missing("endLeases"),
    resumeLeases: missing("resumeLeases"),
  } satisfies SetSteps;
}

export function leaseReads(_sql: Sql) {
  return {
    findLeases: missing("findLeases"),
    listDueLeases: missing("listDueLeases"),
  } satisfies Partial<Store>;
}
