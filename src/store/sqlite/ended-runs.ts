import type { EndedRunsQuery } from "../store.ts";
import type { Connection } from "./machine/connection.ts";

/** A task that may be run: what has ended is never run again. */
export const FIND_OPEN = `
  SELECT 1 FROM tasks
  WHERE seq = @seq AND id = @id AND state NOT IN ('completed', 'failed', 'cancelled')`;

/** The read on runs whose task has ended without them. */
export function endedRunReads(connection: Connection) {
  const findOpen = connection.prepare<[object], number>(FIND_OPEN).pluck();

  return {
    findEndedRuns({ runs }: EndedRunsQuery): readonly string[] {
      return runs.filter((run) => findOpen.get(run) === undefined).map(({ id }) => id);
    },
  };
}
