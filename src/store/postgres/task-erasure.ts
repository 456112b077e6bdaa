import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function taskErasureWrites(_sql: BatchSql, _changes: BatchChanges) {
  return {
    eraseTask: missing("eraseTask"),
  } satisfies SetSteps;
}
