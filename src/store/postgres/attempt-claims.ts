import type { Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function attemptClaimWrites(_sql: BatchSql) {
  return {
    claimAttempts: missing("claimAttempts"),
  } satisfies SetSteps;
}

export function laneReads(_sql: Sql) {
  return {
    listLanes: missing("listLanes"),
    listProvenLanes: missing("listProvenLanes"),
    listInFlight: missing("listInFlight"),
    makeLargePostback: missing("makeLargePostback"),
  } satisfies Partial<Store>;
}
