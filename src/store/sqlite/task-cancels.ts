import { openStateOf } from "../../domain/task/task-transition.ts";
import type { OpenState, StoredState } from "../../domain/task/task.ts";
import type { TaskCancels } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { Connection } from "./machine/connection.ts";
import { FIND_STATE, taskCanceller } from "./tasks.ts";

/** The write that cancels many tasks. It runs inside the transaction of its batch. */
export function taskCancelWrites(connection: Connection, changes: BatchChanges) {
  const find = connection.prepare<[object], { seq: number; state: StoredState }>(FIND_STATE);
  const cancel = taskCanceller(connection, changes);

  return {
    cancelTasks(order: TaskCancels): Record<OpenState, readonly string[]> {
      const { accountId, ids, states } = order;
      const cancelled: Record<OpenState, string[]> = { queued: [], running: [] };
      for (const id of ids) {
        const found = find.get({ accountId, id });
        const open = found === undefined ? null : openStateOf(found.state);
        if (found === undefined || open === null || !states.includes(open)) continue;
        cancel({ seq: found.seq, accountSeq: accountId, state: found.state }, order);
        cancelled[open].push(id);
      }
      return cancelled;
    },
  };
}
