import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import type { SetSteps } from "./steps.ts";

export function queueExpiryWrites(_sql: BatchSql, _changes: BatchChanges) {
  return {
    markQueue: missing("markQueue"),
    expireQueued: missing("expireQueued"),
  } satisfies SetSteps;
}
