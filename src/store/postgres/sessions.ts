import type { Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function sessionWrites(_sql: BatchSql) {
  return {
    createSession: missing("createSession"),
    touchSessions: missing("touchSessions"),
    endSession: missing("endSession"),
    createSignInLink: missing("createSignInLink"),
    useSignInLink: missing("useSignInLink"),
  } satisfies SetSteps;
}

export function sessionReads(_sql: Sql) {
  return {
    findSession: missing("findSession"),
  } satisfies Partial<Store>;
}
