import type { Store } from "../store.ts";
import type { Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";

export function accountOverviewReads(_sql: Sql) {
  return {
    listAccountOverviews: missing("listAccountOverviews"),
  } satisfies Partial<Store>;
}
