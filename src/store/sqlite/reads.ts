import { accessRequestReads } from "./access-requests.ts";
import { accountReads } from "./accounts.ts";
import { attemptClaimReads, laneReads } from "./attempt-claims.ts";
import { clockReads } from "./clock-readings.ts";
import { deliveryReads } from "./deliveries.ts";
import { operatorReads } from "./delivery-log.ts";
import { holdReads } from "./holds.ts";
import { idempotencyReads } from "./idempotency-keys.ts";
import { leaseReads } from "./leases.ts";
import type { Connection } from "./machine/connection.ts";
import { provenLaneReads } from "./proven-lanes.ts";
import { accountWaitingReads } from "./queue-sample.ts";
import { redeliveryOrderReads } from "./redelivery-orders.ts";
import { sessionReads } from "./sessions.ts";
import { taskCountReads } from "./task-counts.ts";
import { taskListReads } from "./task-list.ts";
import { taskQueueReads } from "./task-runs.ts";
import { taskReads } from "./tasks.ts";
import { upkeepReads } from "./upkeep.ts";
import { workerReads } from "./workers.ts";

/** All reads that are answered at once. */
export type Reads = ReturnType<typeof allReads>;

/** The reads of a connection, by name. */
export function allReads(reader: Connection) {
  return {
    ...accountReads(reader),
    ...holdReads(reader),
    ...accessRequestReads(reader),
    ...taskReads(reader),
    ...taskListReads(reader),
    ...taskQueueReads(reader),
    ...leaseReads(reader),
    ...workerReads(reader),
    ...sessionReads(reader),
    ...idempotencyReads(reader),
    ...attemptClaimReads(reader),
    ...laneReads(reader),
    ...provenLaneReads(reader),
    ...deliveryReads(reader),
    ...operatorReads(reader),
    ...redeliveryOrderReads(reader),
    ...taskCountReads(reader),
    ...accountWaitingReads(reader),
    ...clockReads(reader),
    ...upkeepReads(reader),
  };
}
