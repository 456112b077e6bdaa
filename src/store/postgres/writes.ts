import { accessRequestWrites } from "./access-requests.ts";
import { accountErasureWrites } from "./account-erasure.ts";
import { accountWrites } from "./accounts.ts";
import { attemptClaimWrites } from "./attempts.ts";
import { auditing, auditWrites } from "./audit.ts";
import { GatheredChanges, type BatchChanges } from "./batch-changes.ts";
import { clockWrites } from "./clock-readings.ts";
import { deliveryWrites } from "./deliveries.ts";
import { deliveryPauseWrites } from "./delivery-pauses.ts";
import { holdWrites } from "./holds.ts";
import { leaseWrites } from "./leases.ts";
import type { BatchWork } from "./machine/batch.ts";
import type { BatchSql } from "./machine/sql.ts";
import { queueExpiryWrites, queueSampleWrites } from "./queue.ts";
import { redeliveryOrderWrites } from "./redelivery-orders.ts";
import type { NodeMemory } from "./scan-starts.ts";
import { sessionWrites } from "./sessions.ts";
import type { ArgsOf, ValueOf } from "./steps.ts";
import { taskErasureWrites } from "./task-erasure.ts";
import { lockNamed, placeInBatch } from "./task-locks.ts";
import { taskRunWrites } from "./task-runs.ts";
import { progressWrites, taskWrites } from "./tasks.ts";
import { trafficFoldWrites } from "./traffic.ts";
import { upkeepWrites } from "./upkeep.ts";
import { workerWrites } from "./workers.ts";

/** All writes, by name: an operation names one of them. Each runs inside the transaction of its batch. */
export type Writes = {
  readonly [Name in keyof ReturnType<typeof allWrites>]: (args: ArgsOf<Name>) => ValueOf<Name>;
};

function allWrites(sql: BatchSql, changes: BatchChanges) {
  return auditing(sql, {
    ...auditWrites(sql),
    ...accessRequestWrites(sql),
    ...progressWrites(sql),
    ...accountErasureWrites(sql, changes),
    ...accountWrites(sql),
    ...attemptClaimWrites(sql, changes),
    ...clockWrites(sql),
    ...deliveryWrites(sql, changes),
    ...deliveryPauseWrites(sql),
    ...holdWrites(sql),
    ...leaseWrites(sql, changes),
    ...queueExpiryWrites(sql, changes),
    ...queueSampleWrites(sql),
    ...redeliveryOrderWrites(sql, changes),
    ...sessionWrites(sql),
    ...taskErasureWrites(sql, changes),
    ...taskRunWrites(sql, changes),
    ...taskWrites(sql, changes),
    ...trafficFoldWrites(sql),
    ...upkeepWrites(sql, changes),
    ...workerWrites(sql),
  });
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
