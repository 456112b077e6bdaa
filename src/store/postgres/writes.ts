import { AUDITED_WRITES, entryOf } from "../common/writes.ts";
import { noteAudit } from "../sql/audit.ts";
import { sharedWrites, touches } from "../sql/use-cases.ts";
import { accountErasureWrites } from "./account-erasure.ts";
import { attemptClaimWrites } from "./attempts.ts";
import { GatheredChanges, type BatchChanges } from "./batch-changes.ts";
import { deliveryWrites } from "./deliveries.ts";
import { leaseWrites } from "./leases.ts";
import type { BatchWork, SetWrite } from "./machine/batch.ts";
import type { BatchSql } from "./machine/sql.ts";
import { queueExpiryWrites, queueSampleWrites } from "./queue.ts";
import { redeliveryOrderWrites } from "./redelivery-orders.ts";
import type { NodeMemory } from "./scan-starts.ts";
import type { ArgsOf, ValueOf } from "./steps.ts";
import { taskErasureWrites } from "./task-erasure.ts";
import { lockNamed, placeInBatch } from "./task-locks.ts";
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
  return auditing(sql, {
    ...progressWrites(sql),
    ...accountErasureWrites(sql, changes),
    ...bindWrites(sql, sharedWrites),
    ...bindLists(sql, touches),
    ...attemptClaimWrites(sql, changes),
    ...deliveryWrites(sql, changes),
    ...leaseWrites(sql, changes),
    ...queueExpiryWrites(sql, changes),
    ...queueSampleWrites(sql),
    ...redeliveryOrderWrites(sql, changes),
    ...taskErasureWrites(sql, changes),
    ...taskRunWrites(sql, changes),
    ...taskWrites(sql, changes),
    ...trafficFoldWrites(sql),
    ...upkeepWrites(sql, changes),
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
