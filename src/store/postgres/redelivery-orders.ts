import type { Store } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function redeliveryOrderWrites(_sql: BatchSql, _changes: BatchChanges) {
  return {
    orderRedelivery: missing("orderRedelivery"),
    cancelRedeliveryOrder: missing("cancelRedeliveryOrder"),
    stepRedeliveryOrder: missing("stepRedeliveryOrder"),
  } satisfies SetSteps;
}

export function redeliveryOrderReads(_sql: Sql) {
  return {
    listRedeliveryOrders: missing("listRedeliveryOrders"),
    listOpenRedeliveryOrders: missing("listOpenRedeliveryOrders"),
  } satisfies Partial<Store>;
}
