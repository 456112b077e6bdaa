import type { BulkCancel, CancelledPage, OpenTaskPlace } from "../store.ts";
import type { BatchChanges } from "./batch-changes.ts";
import type { Connection } from "./connection.ts";
import { taskCanceller } from "./tasks.ts";

export const OPEN_TASKS = `
  SELECT seq, type, tag, created_at
  FROM tasks INDEXED BY tasks_by_state
  WHERE account_seq = @accountId AND state = @state AND (created_at, seq) > (@createdAt, @seq)
  ORDER BY created_at, seq
  LIMIT @max`;

// Every other write waits for a step.
const EXAMINED_MAX = 1000;
const CANCELLED_MAX = 100;

// What is let into the queue meanwhile is met there.
const WALKED = ["delayed", "queued", "running"] as const;

interface OpenTaskRow {
  seq: number;
  type: string | null;
  tag: string | null;
  created_at: number;
}

/** The write that cancels many. It runs inside the transaction of its batch. */
export function taskCancelWrites(connection: Connection, changes: BatchChanges) {
  const list = connection.prepare<[object], OpenTaskRow>(OPEN_TASKS);
  const cancel = taskCanceller(connection, changes);

  function walk(order: BulkCancel, { state, createdAt, seq: after }: OpenTaskPlace) {
    const { accountId, type, tag, isDry } = order;
    const bounds = { accountId, state, createdAt, seq: after, max: EXAMINED_MAX };
    let count = 0;
    let examined = 0;
    let last: OpenTaskRow | null = null;
    for (const row of list.all(bounds)) {
      if (count === CANCELLED_MAX && !isDry) break;
      examined++;
      last = row;
      if ((type !== null && row.type !== type) || (tag !== null && row.tag !== tag)) continue;
      count++;
      if (!isDry) cancel({ seq: row.seq, accountSeq: accountId, state }, order);
    }
    const mayHaveMore = examined === EXAMINED_MAX || (count === CANCELLED_MAX && !isDry);
    return { count, last: mayHaveMore ? last : null };
  }

  return {
    cancelTasks(order: BulkCancel): CancelledPage {
      const place = order.after ?? { state: WALKED[0], createdAt: -1, seq: -1 };
      const { state } = place;
      const { count, last } = walk(order, place);
      const counts = {
        queued: state === "running" ? 0 : count,
        running: state === "running" ? count : 0,
      };
      if (last !== null) {
        return { ...counts, next: { state, createdAt: last.created_at, seq: last.seq } };
      }
      const nextState = WALKED[WALKED.indexOf(state) + 1];
      const isLast = nextState === undefined || (nextState === "running" && !order.hasRunning);
      return { ...counts, next: isLast ? null : { state: nextState, createdAt: -1, seq: -1 } };
    },
  };
}
