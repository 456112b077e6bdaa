import { accessRequestReads, accessRequestWrites } from "./access-requests.ts";
import { accountErasureWrites } from "./account-erasure.ts";
import { accountOverviewReads } from "./account-overviews.ts";
import { accountReads, accountWrites, FIND_KEY_HOLDER, keyTouches } from "./accounts.ts";
import { auditReads, auditWrites } from "./audit.ts";
import { clockReads, clockWrites } from "./clock.ts";
import { deliveryReads, deliveryWrites, taskDeliveryReads } from "./deliveries.ts";
import { deliveryLogReads } from "./delivery-log.ts";
import { deliveryPauseReads, deliveryPauseWrites, scheduledCountReads } from "./delivery-pauses.ts";
import { queueWrites, waitingReads } from "./queue.ts";
import { redeliveryOrderReads, redeliveryOrderWrites } from "./redelivery-orders.ts";
import { retentionWrites, secretWrites } from "./retention.ts";
import { FIND_SESSION, sessionTouches, sessionWrites } from "./sessions.ts";
import { suspendedWorkReads, suspensionReads, suspensionWrites } from "./suspensions.ts";
import { taskErasureWrites } from "./task-erasure.ts";
import { taskListReads } from "./task-list.ts";
import { timelineReads } from "./timeline.ts";
import { hostTrafficReads, readTraffic } from "./traffic.ts";
import type { Batch } from "./use-case.ts";
import { workCountReads } from "./work-counts.ts";
import { FIND_WORKER_HOLDER, workerReads, workerTouches, workerWrites } from "./workers.ts";

/** The writes: the operations of a batch run one after the other. */
export const sharedWrites = {
  ...accountWrites,
  ...suspensionWrites,
  ...accessRequestWrites,
  ...workerWrites,
  ...sessionWrites,
  ...deliveryPauseWrites,
  ...auditWrites,
  ...clockWrites,
  ...secretWrites,
};

/** The same for writes that change work, and so what is counted of it. */
export function workWrites(batch: Batch) {
  return {
    ...deliveryWrites(batch),
    ...redeliveryOrderWrites(batch),
    ...taskErasureWrites(batch),
    ...accountErasureWrites(batch),
    ...retentionWrites(batch),
    ...queueWrites(batch),
  };
}

/** The writes of lists: the operations of a batch are one. */
export const touches = { ...keyTouches, ...workerTouches, ...sessionTouches };

/** The reads of one quick statement or a few. */
export const sharedReads = {
  ...accountReads,
  ...accessRequestReads,
  ...workerReads,
  ...workCountReads,
  ...clockReads,
  ...deliveryReads,
  ...waitingReads,
  ...redeliveryOrderReads,
};

/** Quick reads of one moment of the database. */
export const snapshotReads = { ...taskDeliveryReads };

/** The quick reads of every second, which run together on PostgreSQL. */
export const turnReads = { ...deliveryPauseReads, ...suspensionReads };

/** The reads that may take long, or need one moment of the database for several statements. */
export const sharedLongReads = {
  ...accountOverviewReads,
  ...auditReads,
  ...suspendedWorkReads,
  ...scheduledCountReads,
  ...workCountReads,
  ...deliveryLogReads,
  ...timelineReads,
  ...waitingReads,
  ...taskListReads,
  ...hostTrafficReads,
  readTraffic,
};

/** The reads for each request with credentials. */
export const lookUps = {
  findKeyHolder: FIND_KEY_HOLDER,
  findSession: FIND_SESSION,
  findWorkerHolder: FIND_WORKER_HOLDER,
};
