import { accessRequestReads } from "./access-requests.ts";
import { accountErasureReads } from "./account-erasure.ts";
import { accountOverviewReads } from "./account-overviews.ts";
import { accountReads } from "./accounts.ts";
import { type ReadingNode, attemptClaimReads, attemptListReads } from "./attempts.ts";
import { auditReads } from "./audit.ts";
import { clockReads } from "./clock-readings.ts";
import { taskCountReads } from "./counts.ts";
import { databaseHealthReads } from "./database-health.ts";
import { deliveryReads, taskDeliveryReads } from "./deliveries.ts";
import { deliveryLogReads } from "./delivery-log.ts";
import { deliveryPauseReads, scheduledCountReads } from "./delivery-pauses.ts";
import { holdReads, heldWorkReads } from "./holds.ts";
import { laneReads, provenLaneReads, dueLaneReads } from "./lanes.ts";
import { leaseReads } from "./leases.ts";
import type { Sql } from "./machine/sql.ts";
import { taskQueueReads, typeWorkReads, waitingReads, waitingTypeReads } from "./queue.ts";
import { redeliveryOrderReads } from "./redelivery-orders.ts";
import type { NodeMemory } from "./scan-starts.ts";
import { sessionReads } from "./sessions.ts";
import { taskListReads } from "./task-list.ts";
import { idempotencyReads } from "./task-posts.ts";
import { largeTaskReads, progressReads, taskReads } from "./tasks.ts";
import { timelineReads } from "./timeline.ts";
import { hostTrafficReads, trafficReads } from "./traffic.ts";
import { turnStatement } from "./turn-reads.ts";
import { upkeepReads } from "./upkeep.ts";
import { workerReads } from "./workers.ts";

/** The reads of one quick statement or a few, by name: each statement sees what is committed when it begins. */
export function shortReads(sql: Sql, node: ReadingNode, memory: NodeMemory) {
  // For the looks that a node has once a second.
  const look = turnStatement(sql);
  return {
    ...accessRequestReads(sql),
    ...progressReads(sql),
    ...waitingTypeReads(look, memory),
    ...dueLaneReads(look, memory),
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
