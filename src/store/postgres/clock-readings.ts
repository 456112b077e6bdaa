import type { Store } from "../store.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function clockWrites(_sql: BatchSql) {
  return {
    keepClockReading: missing("keepClockReading"),
    resumeClock: missing("resumeClock"),
    shiftTimes: missing("shiftTimes"),
    hastenAttempts: missing("hastenAttempts"),
  } satisfies SetSteps;
}

export function clockReads(_sql: Sql) {
  return {
    findClockReading: missing("findClockReading"),
  } satisfies Partial<Store>;
}
