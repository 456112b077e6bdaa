import type { Store } from "../store.ts";
import type { Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";

export function hostTrafficReads(_sql: Sql) {
  return {
    listHostTraffic: missing("listHostTraffic"),
  } satisfies Partial<Store>;
}
