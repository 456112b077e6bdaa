import type { Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function accessRequestWrites(_sql: BatchSql) {
  return {
    insertAccessRequest: missing("insertAccessRequest"),
    approveAccessRequest: missing("approveAccessRequest"),
    denyAccessRequest: missing("denyAccessRequest"),
  } satisfies SetSteps;
}

export function accessRequestReads(_sql: Sql) {
  return {
    listAccessRequests: missing("listAccessRequests"),
    countPendingRequests: missing("countPendingRequests"),
  } satisfies Partial<Store>;
}
