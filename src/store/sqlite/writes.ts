import { auditWrites } from "../sql/audit.ts";
import { sharedWrites, touches, workWrites } from "../sql/use-cases.ts";
import { AUDITED_WRITES, entryOf } from "../sql/writes.ts";
import { attemptClaimWrites } from "./attempts.ts";
import { GatheredChanges, type BatchChanges } from "./counts.ts";
import { attemptEndWrites } from "./deliveries.ts";
import { leaseWrites } from "./leases.ts";
import { BatchRunner, type BatchRunnerOptions } from "./machine/batch.ts";
import type { Connection } from "./machine/connection.ts";
import { postWrites } from "./posts.ts";
import { queueExpiryWrites } from "./queue.ts";
import { taskRunWrites } from "./task-runs.ts";
import { taskWrites } from "./tasks.ts";
import { trafficFoldWrites } from "./traffic.ts";
import { upkeepWrites } from "./upkeep.ts";
import { bindUseCases } from "./use-cases.ts";

/** All writes, by name: an operation names one of them. Each runs inside the transaction of its batch. */
export type Writes = ReturnType<typeof allWrites>;

function allWrites(connection: Connection, changes: BatchChanges) {
  return auditing(connection, {
    ...bindUseCases(connection, sharedWrites),
    ...bindUseCases(connection, touches),
    ...bindUseCases(connection, workWrites({ changes, nextSeq: () => null, stripe: null })),
    ...postWrites(connection, changes),
    ...taskWrites(connection, changes),
    ...taskRunWrites(connection, changes),
    ...leaseWrites(connection, changes),
    ...attemptClaimWrites(connection),
    ...attemptEndWrites(connection, changes),
    ...queueExpiryWrites(connection, changes),
    ...trafficFoldWrites(connection),
    ...upkeepWrites(connection),
  });
}

/** Makes the writes record who did them, in the same transaction. */
function auditing<All extends Readonly<Record<string, unknown>>>(
  connection: Connection,
  writes: All,
): All {
  const { noteAudit } = bindUseCases(connection, auditWrites);
  const all: Record<string, unknown> = { ...writes };
  for (const name of AUDITED_WRITES) {
    // Every write of a file is a function of one argument.
    const write = all[name] as (args: unknown) => unknown;
    all[name] = (args: unknown): unknown => {
      const value = write(args);
      const entry = entryOf(name, { args, value });
      if (entry !== null) noteAudit(entry);
      return value;
    };
  }
  // Each keeps its name, its argument and its result.
  return all as All;
}

/** Returns the function that runs batches of writes on a connection. */
export function newBatchRunner(connection: Connection, options?: BatchRunnerOptions): BatchRunner {
  const changes = new GatheredChanges(connection);
  return new BatchRunner(connection, { writes: allWrites(connection, changes), changes }, options);
}
