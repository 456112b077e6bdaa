import type { Store } from "../store.ts";
import { SUM_BYTES } from "./counts.ts";
import type { Sql } from "./machine/sql.ts";
import { each, type SetSteps } from "./steps.ts";

// The tables whose rows are counted as bytes of accounts.
const COUNTED_TABLES = `
  'tasks', 'queue', 'ends', 'ready', 'deliveries', 'outbox', 'attempts', 'idempotency_keys'`;

/**
 * The bytes that all accounts have, and the size of the other tables. The size of all tables would not tell when there is
 * room again: the server fills the space that erased rows left with new ones, but gives none of it back.
 */
export const USED_BYTES = `
  SELECT ${SUM_BYTES} + (
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
    WHERE relnamespace = to_regnamespace(current_schema()) AND relkind = 'r' AND relname NOT IN (${COUNTED_TABLES})
  ) AS bytes`;

export function upkeepWrites() {
  return {
    // The server gives erased rows' space to new rows.
    reclaimSpace: each(() => Promise.resolve("done" as const)),

    // Every batch locks its stripe and has an id: both are written, and so is its COMMIT.
    tryWrite: each(() => Promise.resolve()),
  } satisfies SetSteps;
}

export function upkeepReads(sql: Sql) {
  return {
    async usedBytes() {
      const row = await sql.get<{ bytes: number }>(USED_BYTES);
      return row?.bytes ?? 0;
    },
  } satisfies Partial<Store>;
}
