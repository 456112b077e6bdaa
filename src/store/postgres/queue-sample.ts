import type { Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function queueSampleWrites(_sql: BatchSql) {
  return {
    sampleQueues: missing("sampleQueues"),
  } satisfies SetSteps;
}

export function waitingReads(_sql: Sql) {
  return {
    findOldestWaiting: missing("findOldestWaiting"),
  } satisfies Partial<Store>;
}
