import type { Store } from "../store.ts";
import type { Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";

export function deliveryLogReads(_sql: Sql) {
  return {
    listAllDeliveries: missing("listAllDeliveries"),
    countEndedDeliveries: missing("countEndedDeliveries"),
    countEndedDeliveriesStep: missing("countEndedDeliveriesStep"),
  } satisfies Partial<Store>;
}
