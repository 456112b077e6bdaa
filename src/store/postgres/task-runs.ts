import type { Store } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function taskRunWrites(_sql: BatchSql, _changes: BatchChanges) {
  return {
    claimTasks: missing("claimTasks"),
    finishTask: missing("finishTask"),
    retryTask: missing("retryTask"),
    requeueTasks: missing("requeueTasks"),
    releaseTask: missing("releaseTask"),
    releaseDelayed: missing("releaseDelayed"),
  } satisfies SetSteps;
}

export function taskQueueReads(_sql: Sql) {
  return {
    findOldestQueued: missing("findOldestQueued"),
    listQueuedTypes: missing("listQueuedTypes"),
    findEndedTasks: missing("findEndedTasks"),
  } satisfies Partial<Store>;
}

export function typeWorkReads(_sql: Sql) {
  return {
    listTypeWork: missing("listTypeWork"),
  } satisfies Partial<Store>;
}
