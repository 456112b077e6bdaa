import { isFinished, type StoredState } from "../../domain/task/task.ts";
import type { EndedRunsQuery } from "../store.ts";
import type { Connection } from "./machine/connection.ts";

export const FIND_RUN_STATE = `SELECT state FROM tasks WHERE seq = @seq AND id = @id`;

/** The read on runs whose tasks have ended without them. */
export function endedRunReads(connection: Connection) {
  const findState = connection.prepare<[object], StoredState>(FIND_RUN_STATE).pluck();

  return {
    findEndedRuns({ runs }: EndedRunsQuery): readonly string[] {
      return runs
        .filter((run) => {
          const state = findState.get(run);
          // A task that has ended is never run again.
          return state === undefined || isFinished(state);
        })
        .map(({ id }) => id);
    },
  };
}
