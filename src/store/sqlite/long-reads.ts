import { accountOverviewReads } from "./account-overviews.ts";
import { laneReads } from "./attempt-claims.ts";
import { deliveryLogReads } from "./delivery-log.ts";
import { heldWorkReads } from "./holds.ts";
import { hostTrafficReads } from "./host-traffic.ts";
import { largeTaskReads } from "./large-tasks.ts";
import type { Connection } from "./machine/connection.ts";
import { tableCheckReads } from "./machine/table-check.ts";
import { allWaitingReads } from "./queue-sample.ts";
import { allCountReads } from "./task-counts.ts";
import { taskListReads } from "./task-list.ts";
import { endedTaskReads } from "./task-runs.ts";
import { timelineReads } from "./timeline.ts";
import { trafficReads } from "./traffic.ts";
import { typeWorkReads } from "./type-work.ts";

/** Every read that may take long, by name. */
export type LongReads = ReturnType<typeof longReads>;

/** The reads that may take long: nothing else may wait for what they wait for. */
export function longReads(connection: Connection) {
  return {
    ...largeTaskReads(connection),
    ...taskListReads(connection),
    ...timelineReads(connection),
    ...endedTaskReads(connection),
    ...typeWorkReads(connection),
    ...deliveryLogReads(connection),
    ...allCountReads(connection),
    ...allWaitingReads(connection),
    ...trafficReads(connection),
    ...hostTrafficReads(connection),
    ...laneReads(connection),
    ...accountOverviewReads(connection),
    ...heldWorkReads(connection),
    ...tableCheckReads(connection),
  };
}
