import type { Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function workerWrites(_sql: BatchSql) {
  return {
    createWorker: missing("createWorker"),
    revokeWorker: missing("revokeWorker"),
    touchWorkers: missing("touchWorkers"),
  } satisfies SetSteps;
}

export function workerReads(_sql: Sql) {
  return {
    listWorkers: missing("listWorkers"),
    findWorkerHolder: missing("findWorkerHolder"),
  } satisfies Partial<Store>;
}
