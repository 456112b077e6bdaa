import type { Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function trafficFoldWrites(_sql: BatchSql) {
  return {
    foldTraffic: missing("foldTraffic"),
  } satisfies SetSteps;
}

export function trafficReads(_sql: Sql) {
  return {
    findTraffic: missing("findTraffic"),
  } satisfies Partial<Store>;
}
