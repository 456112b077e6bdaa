import { accessRequestReads } from "./access-requests.ts";
import { accountOverviewReads } from "./account-overviews.ts";
import { accountReads } from "./accounts.ts";
import { attemptClaimReads, laneReads } from "./attempt-claims.ts";
import { attemptListReads } from "./attempt-list.ts";
import { auditReads } from "./audit.ts";
import { clockReads } from "./clock-readings.ts";
import { deliveryReads } from "./deliveries.ts";
import { deliveryLogReads, operatorReads } from "./delivery-log.ts";
import { deliveryPauseReads, scheduledCountReads } from "./delivery-pauses.ts";
import { heldWorkReads, holdReads } from "./holds.ts";
import { hostTrafficReads } from "./host-traffic.ts";
import { idempotencyReads } from "./idempotency-keys.ts";
import { largeTaskReads } from "./large-tasks.ts";
import { leaseReads } from "./leases.ts";
import type { Connection } from "./machine/connection.ts";
import { tableCheckReads } from "./machine/table-check.ts";
import { provenLaneReads } from "./proven-lanes.ts";
import { accountWaitingReads, allWaitingReads } from "./queue-sample.ts";
import { redeliveryOrderReads } from "./redelivery-orders.ts";
import { sessionReads } from "./sessions.ts";
import { allCountReads, taskCountReads } from "./task-counts.ts";
import { taskListReads } from "./task-list.ts";
import { endedTaskReads, taskQueueReads, typeWorkReads } from "./task-runs.ts";
import { taskReads } from "./tasks.ts";
import { timelineReads } from "./timeline.ts";
import { trafficReads } from "./traffic.ts";
import { upkeepReads } from "./upkeep.ts";
import { workerReads } from "./workers.ts";

/** The reads of a connection, by name, that are answered at once. */
export function shortReads(connection: Connection) {
  return {
    ...accountReads(connection),
    ...holdReads(connection),
    ...accessRequestReads(connection),
    ...taskReads(connection),
    ...taskListReads(connection),
    ...taskQueueReads(connection),
    ...leaseReads(connection),
    ...workerReads(connection),
    ...sessionReads(connection),
    ...idempotencyReads(connection),
    ...attemptClaimReads(connection),
    ...provenLaneReads(connection),
    ...deliveryReads(connection),
    ...deliveryPauseReads(connection),
    ...operatorReads(connection),
    ...redeliveryOrderReads(connection),
    ...taskCountReads(connection),
    ...accountWaitingReads(connection),
    ...clockReads(connection),
    ...upkeepReads(connection),
  };
}

export type LongReads = ReturnType<typeof longReads>;

/** The reads, by name, that may take long: nothing else may wait for what they wait for. */
export function longReads(connection: Connection) {
  return {
    ...auditReads(connection),
    ...largeTaskReads(connection),
    ...taskListReads(connection),
    ...timelineReads(connection),
    ...endedTaskReads(connection),
    ...typeWorkReads(connection),
    ...deliveryLogReads(connection),
    ...attemptListReads(connection),
    ...allCountReads(connection),
    ...allWaitingReads(connection),
    ...trafficReads(connection),
    ...hostTrafficReads(connection),
    ...laneReads(connection),
    ...accountOverviewReads(connection),
    ...heldWorkReads(connection),
    ...scheduledCountReads(connection),
    ...tableCheckReads(connection),
  };
}
