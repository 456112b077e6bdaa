import { isFinished, type StoredState } from "../../domain/task/task.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";

export const FIND_TASK_STATE = `SELECT state FROM tasks WHERE id = @id`;

/** The read on tasks that may have ended by another process. */
export function endedTaskReads(connection: Connection) {
  const findState = connection.prepare<[object], StoredState>(FIND_TASK_STATE).pluck();

  return {
    findEndedTasks: ({ ids }) =>
      ids.filter((id) => {
        const state = findState.get({ id });
        return state === undefined || isFinished(state);
      }),
  } satisfies Steps;
}
