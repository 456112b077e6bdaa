import type { Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function holdWrites(_sql: BatchSql) {
  return {
    setAccountDisabled: missing("setAccountDisabled"),
  } satisfies SetSteps;
}

export function holdReads(_sql: Sql) {
  return {
    listHoldChanges: missing("listHoldChanges"),
  } satisfies Partial<Store>;
}

export function heldWorkReads(_sql: Sql) {
  return {
    findHeldWork: missing("findHeldWork"),
  } satisfies Partial<Store>;
}
