import type { Store } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { BatchSql, Sql } from "./machine/sql.ts";
import { missing } from "./missing.ts";
import { each, type SetSteps } from "./steps.ts";

const INSERT_SECRET = `INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`;

// Another node may have kept one a moment before: then the insert has waited for it, and this sees it.
const FIND_SECRET = `SELECT value FROM secrets WHERE name = $1`;

export function upkeepWrites(sql: BatchSql, _changes: BatchChanges) {
  return {
    keepSecret: each(async ({ name, fresh }) => {
      sql.send(INSERT_SECRET, [name, fresh]);
      return (await sql.get<{ value: string }>(FIND_SECRET, [name]))?.value ?? fresh;
    }),
    eraseExpired: missing("eraseExpired"),
    eraseStale: missing("eraseStale"),
    reclaimSpace: missing("reclaimSpace"),
    tryWrite: missing("tryWrite"),
  } satisfies SetSteps;
}

export function upkeepReads(_sql: Sql) {
  return {
    usedBytes: missing("usedBytes"),
  } satisfies Partial<Store>;
}
