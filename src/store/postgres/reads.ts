import { accessRequestReads } from "./access-requests.ts";
import { accountErasureReads } from "./account-erasure.ts";
import { accountOverviewReads } from "./account-overviews.ts";
import { accountReads } from "./accounts.ts";
import { attemptClaimReads, type ReadingNode } from "./attempt-claims.ts";
import { attemptListReads } from "./attempt-list.ts";
import { auditReads } from "./audit.ts";
import { clockReads } from "./clock-readings.ts";
import { databaseHealthReads } from "./database-health.ts";
import { deliveryReads, taskDeliveryReads } from "./deliveries.ts";
import { deliveryLogReads } from "./delivery-log.ts";
import { deliveryPauseReads, scheduledCountReads } from "./delivery-pauses.ts";
import { holdReads, heldWorkReads } from "./holds.ts";
import { hostTrafficReads } from "./host-traffic.ts";
import { idempotencyReads } from "./idempotency-keys.ts";
import { laneReads } from "./lanes.ts";
import { leaseReads } from "./leases.ts";
import type { Sql } from "./machine/sql.ts";
import type { NodeMemory } from "./node-memory.ts";
import { progressReads } from "./progress.ts";
import { provenLaneReads } from "./proven-lanes.ts";
import { taskQueueReads, typeWorkReads } from "./queue-reads.ts";
import { waitingReads } from "./queue-sample.ts";
import { redeliveryOrderReads } from "./redelivery-orders.ts";
import { sessionReads } from "./sessions.ts";
import { taskCountReads } from "./task-counts.ts";
import { taskListReads } from "./task-list.ts";
import { largeTaskReads, taskReads } from "./tasks.ts";
import { timelineReads } from "./timeline.ts";
import { trafficReads } from "./traffic.ts";
import { turnStatement } from "./turn-statement.ts";
import { upkeepReads } from "./upkeep.ts";
import { waitingWorkReads } from "./waiting-work.ts";
import { workerReads } from "./workers.ts";

/** The reads of one quick statement or a few, by name: each statement sees what is committed when it begins. */
export function shortReads(sql: Sql, node: ReadingNode, memory: NodeMemory) {
  // For the looks that a node has once a second.
  const look = turnStatement(sql);
  return {
    ...accessRequestReads(sql),
    ...progressReads(sql),
    ...waitingWorkReads(look, memory),
    ...accountReads(sql),
    ...accountErasureReads(sql),
    ...attemptClaimReads(sql, node),
    ...laneReads(sql, memory),
    ...provenLaneReads(sql),
    ...clockReads(sql),
    ...databaseHealthReads(turnStatement(sql)),
    ...deliveryReads(sql),
    ...deliveryPauseReads(look),
    ...holdReads(look, memory),
    ...idempotencyReads(sql),
    ...leaseReads(sql),
    ...waitingReads(sql),
    ...redeliveryOrderReads(sql),
    ...sessionReads(sql),
    ...taskCountReads(sql),
    ...taskQueueReads(sql),
    ...taskReads(sql),
    ...upkeepReads(sql),
    ...workerReads(sql),
  };
}

export type LongReads = ReturnType<typeof longReads>;

/** The reads, by name, that may take long, or that need one moment of the database for several statements. */
export function longReads(sql: Sql) {
  return {
    ...auditReads(sql),
    ...accountOverviewReads(sql),
    ...deliveryLogReads(sql),
    ...attemptListReads(sql),
    ...taskDeliveryReads(sql),
    ...heldWorkReads(sql),
    ...scheduledCountReads(sql),
    ...hostTrafficReads(sql),
    ...largeTaskReads(sql),
    ...taskListReads(sql),
    ...typeWorkReads(sql),
    ...timelineReads(sql),
    ...trafficReads(sql),
  };
}
