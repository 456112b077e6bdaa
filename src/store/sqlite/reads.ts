import { taskListReads } from "../sql/task-list.ts";
import {
  lookUps,
  sharedLongReads,
  sharedReads,
  snapshotReads,
  turnReads,
} from "../sql/use-cases.ts";
import { attemptClaimReads, attemptListReads, laneReads, provenLaneReads } from "./attempts.ts";
import { leaseReads } from "./leases.ts";
import type { Connection } from "./machine/connection.ts";
import { tableCheckReads } from "./machine/file-check.ts";
import { idempotencyReads } from "./posts.ts";
import { endedTaskReads, taskQueueReads, typeWorkReads } from "./task-runs.ts";
import { largeTaskReads, taskReads } from "./tasks.ts";
import { upkeepReads } from "./upkeep.ts";
import { bindLookUps, bindSnapshots, bindUseCases } from "./use-cases.ts";

/** The immediate reads of a connection, by name. */
export function shortReads(connection: Connection) {
  return {
    ...bindUseCases(connection, sharedReads),
    ...bindUseCases(connection, turnReads),
    ...bindLookUps(connection, lookUps),
    ...taskReads(connection),
    ...bindSnapshots(connection, { listReady: taskListReads.listReady }),
    ...taskQueueReads(connection),
    ...leaseReads(connection),
    ...idempotencyReads(connection),
    ...attemptClaimReads(connection),
    ...provenLaneReads(connection),
    ...bindSnapshots(connection, snapshotReads),
    ...upkeepReads(connection),
  };
}

export type LongReads = ReturnType<typeof longReads>;

/** The reads, by name, that may take long: nothing else may wait for what they wait for. */
export function longReads(connection: Connection) {
  return {
    ...largeTaskReads(connection),
    ...endedTaskReads(connection),
    ...typeWorkReads(connection),
    ...attemptListReads(connection),
    ...laneReads(connection),
    ...bindSnapshots(connection, sharedLongReads),
    ...tableCheckReads(connection),
  };
}
