import type { Operation } from "../common/batch.ts";
import type { BatchSql } from "./machine/sql.ts";
import type { ArgsOf } from "./steps.ts";
import { toUuid } from "./task-columns.ts";
import type { Writes } from "./writes.ts";

/**
 * The order in which batches lock tasks, so that none waits for another in a circle: first what their operations name,
 * by its numbers; then what goes with it; last, without waiting for anybody, what is claimed. An operation that waits
 * for tasks which it does not name has the weight of a whole batch, and so one of its own.
 */

// Task ids are texts, and their numbers numbers.
type TaskRef = string | number;

type RefsOf = { readonly [Name in keyof Writes]?: (args: ArgsOf<Name>) => readonly TaskRef[] };

const idOf = ({ id }: { readonly id: string }): string => id;
const seqOf = ({ seq }: { readonly seq: number }): readonly number[] => [seq];

/** The tasks that writes lock in the queue: in a statement for all of a name. */
const LOCKED_TOGETHER = {
  endLeases: ({ ends }) => ends.map(idOf),
  eraseTask: (task) => [idOf(task)],
  extendLeases: ({ leases }) => leases.map(idOf),
  finishTask: seqOf,
  noteProgress: (runs) => runs.map(idOf),
  releaseTask: seqOf,
  requeueTasks: (which) => ("of" in which ? [] : seqOf(which)),
  retryTask: seqOf,
} satisfies RefsOf;

/** The same of writes that run one after the other. */
const LOCKED_EACH = {
  cancelTask: (task) => [idOf(task)],
  cancelTasks: ({ ids }) => ids,
} satisfies RefsOf;

const NAMED: RefsOf = { ...LOCKED_TOGETHER, ...LOCKED_EACH };

/** They pass over what others hold. */
const WAITS_FOR_NOBODY: readonly (keyof Writes)[] = [
  "claimAttempts",
  "claimLeases",
  "claimTasks",
  "releaseDelayed",
];

// For `+ 0` see "Rows by their numbers" in machine/sql.ts.
const LOCK_NAMED = `
  SELECT 1 FROM queue
  WHERE task_seq = ANY ($2::bigint[] || ARRAY (SELECT seq FROM tasks WHERE id = ANY($1::uuid[])))
  ORDER BY task_seq + 0 FOR UPDATE`;

/** Sends a lock of all tasks that operations name, unless one statement of theirs locks these anyway. */
export function lockNamed(sql: BatchSql, operations: readonly Operation[]): void {
  const naming = operations.filter(({ name }) => name in NAMED);
  const statements = new Set(naming.map((each) => (each.name in LOCKED_EACH ? each : each.name)));
  if (statements.size < 2) return;
  const refs = [...new Set(naming.flatMap(refsOf))];
  sql.send(LOCK_NAMED, [
    refs.filter((ref) => typeof ref === "string").map(toUuid),
    refs.filter((ref) => typeof ref === "number"),
  ]);
}

function refsOf({ name, args }: Operation): readonly TaskRef[] {
  // The table is keyed by the names of writes, each with a function of that write's own arguments.
  const refs: Readonly<Record<string, ((args: never) => readonly TaskRef[]) | undefined>> = NAMED;
  return refs[name]?.(args as never) ?? [];
}

/**
 * When a write comes in its batch: those that name tasks first, and what claims after new work, which it finds. All of
 * one place are in the order of their names.
 */
export function placeInBatch(name: string): 0 | 1 | 2 | 3 {
  if (name in NAMED) return 0;
  if (WAITS_FOR_NOBODY.some((each) => each === name)) return 3;
  return name.startsWith("insert") ? 2 : 1;
}
