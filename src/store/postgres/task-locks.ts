import type { Operation } from "../common/batch.ts";
import { locksOf, waitsForNone } from "../common/writes.ts";
import type { BatchSql } from "./machine/sql.ts";
import { toUuid } from "./task-columns.ts";

// For `+ 0` see "Rows by their numbers" in machine/sql.ts.
const LOCK_NAMED = `
  SELECT 1 FROM queue
  WHERE task_seq = ANY ($2::bigint[] || ARRAY (SELECT seq FROM tasks WHERE id = ANY($1::uuid[])))
  ORDER BY task_seq + 0 FOR UPDATE`;

/** Sends a lock of all tasks that operations name, unless one statement of theirs locks these anyway. */
export function lockNamed(sql: BatchSql, operations: readonly Operation[]): void {
  const naming = operations.flatMap((operation) => {
    const locks = locksOf(operation.name);
    return locks === null ? [] : [{ operation, ...locks }];
  });
  const statements = new Set(
    naming.map(({ operation, each }) => (each ? operation : operation.name)),
  );
  if (statements.size < 2) return;
  // The table is keyed by the names of writes, each with a function of that write's own arguments.
  const refs = [
    ...new Set(naming.flatMap(({ operation, refsOf }) => refsOf(operation.args as never))),
  ];
  sql.send(LOCK_NAMED, [
    refs.filter((ref) => typeof ref === "string").map(toUuid),
    refs.filter((ref) => typeof ref === "number"),
  ]);
}

/**
 * When a write comes in its batch: those that name tasks first, and what claims after new work, which it finds. All of
 * one place are in the order of their names.
 */
export function placeInBatch(name: string): 0 | 1 | 2 | 3 {
  if (locksOf(name) !== null) return 0;
  if (waitsForNone(name)) return 3;
  return name.startsWith("insert") ? 2 : 1;
}
