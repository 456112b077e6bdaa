import { accessRequestWrites } from "./access-requests.ts";
import { accountErasureWrites } from "./account-erasure.ts";
import { accountWrites } from "./accounts.ts";
import { attemptClaimWrites } from "./attempts.ts";
import { auditing, auditWrites } from "./audit.ts";
import { GatheredChanges, type BatchChanges } from "./counts.ts";
import { deliveryWrites } from "./deliveries.ts";
import { deliveryPauseWrites } from "./delivery-pauses.ts";
import { holdWrites } from "./holds.ts";
import { leaseWrites } from "./leases.ts";
import { BatchRunner, type BatchRunnerOptions } from "./machine/batch.ts";
import type { Connection } from "./machine/connection.ts";
import { postWrites } from "./posts.ts";
import { queueExpiryWrites, queueSampleWrites } from "./queue.ts";
import { redeliveryOrderWrites } from "./redelivery-orders.ts";
import { sessionWrites } from "./sessions.ts";
import { taskRunWrites } from "./task-runs.ts";
import { taskWrites } from "./tasks.ts";
import { trafficFoldWrites } from "./traffic.ts";
import { clockWrites, taskErasureWrites, upkeepWrites } from "./upkeep.ts";
import { workerWrites } from "./workers.ts";

/** All writes, by name: an operation names one of them. Each runs inside the transaction of its batch. */
export type Writes = ReturnType<typeof allWrites>;

function allWrites(connection: Connection, changes: BatchChanges) {
  return auditing(connection, {
    ...auditWrites(connection),
    ...accountWrites(connection),
    ...accountErasureWrites(connection, changes),
    ...holdWrites(connection),
    ...accessRequestWrites(connection),
    ...postWrites(connection, changes),
    ...taskWrites(connection, changes),
    ...taskRunWrites(connection, changes),
    ...taskErasureWrites(connection, changes),
    ...leaseWrites(connection, changes),
    ...workerWrites(connection),
    ...sessionWrites(connection),
    ...attemptClaimWrites(connection),
    ...deliveryWrites(connection, changes),
    ...deliveryPauseWrites(connection),
    ...clockWrites(connection),
    ...redeliveryOrderWrites(connection, changes),
    ...queueExpiryWrites(connection, changes),
    ...queueSampleWrites(connection),
    ...trafficFoldWrites(connection),
    ...upkeepWrites(connection, changes),
  });
}

/** Makes the runner for batches of these writes on a connection. */
export function newBatchRunner(connection: Connection, options?: BatchRunnerOptions): BatchRunner {
  const changes = new GatheredChanges(connection);
  return new BatchRunner(connection, { writes: allWrites(connection, changes), changes }, options);
}
