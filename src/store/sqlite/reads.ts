import { accessRequestReads } from "./access-requests.ts";
import { accountOverviewReads } from "./account-overviews.ts";
import { accountReads } from "./accounts.ts";
import { attemptClaimReads, attemptListReads, laneReads, provenLaneReads } from "./attempts.ts";
import { auditReads } from "./audit.ts";
import { allCountReads, taskCountReads } from "./counts.ts";
import { deliveryReads } from "./deliveries.ts";
import { deliveryLogReads, operatorReads } from "./delivery-log.ts";
import { deliveryPauseReads, scheduledCountReads } from "./delivery-pauses.ts";
import { heldWorkReads, holdReads } from "./holds.ts";
import { leaseReads } from "./leases.ts";
import type { Connection } from "./machine/connection.ts";
import { tableCheckReads } from "./machine/file-check.ts";
import { idempotencyReads } from "./posts.ts";
import { accountWaitingReads, allWaitingReads } from "./queue.ts";
import { redeliveryOrderReads } from "./redelivery-orders.ts";
import { sessionReads } from "./sessions.ts";
import { taskListReads } from "./task-list.ts";
import { endedTaskReads, taskQueueReads, typeWorkReads } from "./task-runs.ts";
import { largeTaskReads, taskReads } from "./tasks.ts";
import { timelineReads } from "./timeline.ts";
import { hostTrafficReads, trafficReads } from "./traffic.ts";
import { clockReads, upkeepReads } from "./upkeep.ts";
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
