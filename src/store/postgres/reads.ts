import { systemClock, wait } from "../../domain/clock/clock.ts";
import { suspensionReads } from "../sql/suspensions.ts";
import {
  lookUps,
  sharedLongReads,
  sharedReads,
  snapshotReads,
  turnReads,
} from "../sql/use-cases.ts";
import { type Store, StoreError } from "../store.ts";
import { type ReadingNode, attemptClaimReads, attemptListReads } from "./attempts.ts";
import { databaseHealthReads } from "./database-health.ts";
import { laneReads, provenLaneReads, dueLaneReads } from "./lanes.ts";
import { leaseReads } from "./leases.ts";
import type { Sql } from "./machine/sql.ts";
import { taskQueueReads, typeWorkReads, waitingTypeReads } from "./queue.ts";
import type { NodeMemory } from "./scan-starts.ts";
import { idempotencyReads } from "./task-posts.ts";
import { largeTaskReads, progressReads, taskReads } from "./tasks.ts";
import { turnStatement } from "./turn-reads.ts";
import { upkeepReads } from "./upkeep.ts";
import { bindLookUps, bindReads } from "./use-cases.ts";

/** The reads of one quick statement or a few, by name: each statement sees what is committed when it begins. */
export function shortReads(sql: Sql, node: ReadingNode, memory: NodeMemory) {
  // For the looks that a node has once a second.
  const look = turnStatement(sql);
  return {
    ...progressReads(sql),
    ...waitingTypeReads(look, memory),
    ...dueLaneReads(look, memory),
    ...bindReads(sql, sharedReads),
    ...bindReads(look, turnReads),
    ...bindLookUps(sql, lookUps),
    ...accountErasureReads(sql),
    ...attemptClaimReads(sql, node),
    ...laneReads(sql, memory),
    ...provenLaneReads(sql),
    ...databaseHealthReads(turnStatement(sql)),
    ...forgettingStarts(bindReads(look, suspensionReads), memory),
    ...idempotencyReads(sql),
    ...leaseReads(sql),
    ...taskQueueReads(sql),
    ...taskReads(sql),
    ...upkeepReads(sql),
  };
}

/** Claims passed over what was suspended: each node forgets how far it looked when that changes. */
function forgettingStarts(
  { listSuspensionChanges }: ReturnType<typeof bindReads<typeof suspensionReads>>,
  memory: NodeMemory,
) {
  return {
    async listSuspensionChanges(query) {
      const changes = await listSuspensionChanges(query);
      if (changes.accounts.length > 0) memory.forgetStarts();
      return changes;
    },
  } satisfies Partial<Store>;
}

export type LongReads = ReturnType<typeof longReads>;

/** The reads, by name, that may take long, or that need one moment of the database for several statements. */
export function longReads(sql: Sql) {
  return {
    ...bindReads(sql, sharedLongReads),
    ...attemptListReads(sql),
    ...bindReads(sql, snapshotReads),
    ...largeTaskReads(sql),
    ...typeWorkReads(sql),
  };
}

// Every batch locks its stripe first, and with it the table until it has ended.
const LIST_BATCHES = `
  SELECT virtualtransaction AS id FROM pg_locks
  WHERE relation = 'stripes'::regclass AND mode = 'RowShareLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

// One that stands still is ended by the server after ten seconds.
const BATCH_MS_MAX = 15_000;
const LOOK_MS = 20;

function accountErasureReads(sql: Sql) {
  const list = async (): Promise<readonly string[]> =>
    (await sql.all<{ id: string }>(LIST_BATCHES)).map(({ id }) => id);
  return {
    /**
     * Settles when the batches have ended that are under way now, at any node. A post of one of them may have found an
     * account enabled that is disabled by now, and holds no lock of it. A later post finds it disabled, and locks it:
     * so the erasure finds the post's rows, or the post finds no account any more.
     */
    async batchesEnded(): Promise<void> {
      const until = systemClock.monotonic() + BATCH_MS_MAX;
      let left = await list();
      while (left.length > 0) {
        if (systemClock.monotonic() > until)
          throw new StoreError("busy", "a write of a daemon does not end");
        await wait(LOOK_MS, { clock: systemClock });
        const underWay = await list();
        left = left.filter((id) => underWay.includes(id));
      }
    },
  };
}
