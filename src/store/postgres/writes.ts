import type { BatchReply, BatchTransport, Operation } from "../common/batch.ts";
import type { News } from "../common/write-rule.ts";
import { noteAudit } from "../sql/audit.ts";
import { lockToErase } from "../sql/task-erasure.ts";
import { sharedWrites, touches, workWrites } from "../sql/use-cases.ts";
import { AUDITED_WRITES, entryOf, locksOf, newsOf, waitsForNone } from "../sql/writes.ts";
import { attemptClaimWrites, attemptEndWrites } from "./attempts.ts";
import { type BatchChanges, GatheredChanges } from "./batch-changes.ts";
import { leaseWrites } from "./leases.ts";
import type { BatchWork, SetWrite } from "./machine/batch.ts";
import type { BatchSql } from "./machine/sql.ts";
import { queueExpiryWrites } from "./queue.ts";
import type { NodeMemory } from "./scan-starts.ts";
import type { ArgsOf, ValueOf } from "./steps.ts";
import { toUuid } from "./task-columns.ts";
import { taskRunWrites } from "./task-runs.ts";
import { progressWrites, taskWrites } from "./tasks.ts";
import { trafficFoldWrites } from "./traffic.ts";
import { upkeepWrites } from "./upkeep.ts";
import { bindLists, bindWrites, runOn } from "./use-cases.ts";

/** All writes, by name: an operation names one of them. Each runs inside the transaction of its batch. */
export type Writes = {
  readonly [Name in keyof ReturnType<typeof allWrites>]: (args: ArgsOf<Name>) => ValueOf<Name>;
};

function allWrites(sql: BatchSql, changes: BatchChanges) {
  const { stripe } = sql;
  const ofWork = bindWrites(sql, workWrites({ changes, nextSeq: () => sql.nextSeq(), stripe }));
  return auditing(sql, {
    ...progressWrites(sql),
    ...bindWrites(sql, sharedWrites),
    ...bindLists(sql, touches),
    ...ofWork,
    async eraseTask(orders: readonly ArgsOf<"eraseTask">[]) {
      // All of them before the first is erased, in the order in which others lock them.
      await runOn(sql, lockToErase(orders.map(({ id }) => id)));
      return await ofWork.eraseTask(orders);
    },
    ...attemptClaimWrites(sql, changes),
    ...attemptEndWrites(sql, changes),
    ...leaseWrites(sql, changes),
    ...queueExpiryWrites(sql, changes),
    ...taskRunWrites(sql, changes),
    ...taskWrites(sql, changes),
    ...trafficFoldWrites(sql),
    ...upkeepWrites(),
  });
}

/** Makes the writes record who did them, in the same transaction. */
function auditing<All extends Readonly<Record<string, unknown>>>(sql: BatchSql, writes: All): All {
  const all: Record<string, unknown> = { ...writes };
  for (const name of AUDITED_WRITES) {
    // Every write of a server takes a list, and returns as long a one.
    const write = all[name] as SetWrite;
    all[name] = async (list: readonly never[]): Promise<readonly unknown[]> => {
      const values = await write(list);
      for (const [i, args] of list.entries()) {
        const entry = entryOf(name, { args, value: values[i] });
        if (entry !== null) await runOn(sql, noteAudit(entry));
      }
      return values;
    };
  }
  // Each keeps its name, its argument and its result.
  return all as All;
}

/** Makes the writes of a connection. */
export function newBatchWork(sql: BatchSql, memory: NodeMemory): BatchWork {
  const changes = new GatheredChanges(sql, memory);
  return {
    writes: allWrites(sql, changes),
    lock: (operations) => lockNamed(sql, operations),
    placeOf: placeInBatch,
    changes,
  };
}

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

/** The same transport, which also reports the changes of each committed batch. */
export function tellingTransport(
  transport: BatchTransport,
  tell: (news: News) => void,
): BatchTransport {
  return {
    async send(batch) {
      const reply = await transport.send(batch);
      if (reply.kind === "committed") tellAll(batch, reply, tell);
      return reply;
    },
    close: () => transport.close(),
  };
}

function tellAll(
  batch: readonly Operation[],
  { values, changed }: Extract<BatchReply, { kind: "committed" }>,
  tell: (news: News) => void,
): void {
  if (changed.length > 0) tell({ accounts: changed });
  for (const [i, { name, args }] of batch.entries()) {
    // One that was rejected, or given up by its client, has none.
    if (values[i] === undefined) continue;
    const news = newsOf(name, args, values[i]);
    if (news !== undefined) tell(news);
  }
}
