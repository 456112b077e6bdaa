import type { TypeWorkQuery } from "../store.ts";
import type { Connection } from "./machine/connection.ts";
import type { Steps } from "./steps.ts";
import { OLDEST_QUEUED } from "./task-runs.ts";

/** Counts no further than necessary. */
export const COUNT_QUEUED = `
  SELECT count(*) FROM (
    SELECT 1 FROM tasks INDEXED BY tasks_queued WHERE state = 'queued' AND type = @type LIMIT @max
  )`;

/** There are few: the concurrency of a type bounds its runs. */
export const COUNT_RUNNING = `
  SELECT type, count(*) AS running FROM tasks INDEXED BY tasks_running
  WHERE state = 'running'
  GROUP BY type`;

export function typeWorkReads(connection: Connection) {
  const countQueued = connection.prepare<[object], number>(COUNT_QUEUED).pluck();
  const countRunning = connection.prepare<[], [string, number]>(COUNT_RUNNING).raw();
  const oldestQueued = connection.prepare<[object], number | null>(OLDEST_QUEUED).pluck();

  return {
    // One snapshot: a task that starts between two reads would be counted twice, or not at all.
    listTypeWork: connection.transaction(({ types, waitingMax }: TypeWorkQuery) => {
      const running = new Map(countRunning.all());
      return types.map((type) => {
        const counted = countQueued.get({ type, max: waitingMax + 1 }) ?? 0;
        return {
          type,
          running: running.get(type) ?? 0,
          waiting: Math.min(counted, waitingMax),
          isMoreWaiting: counted > waitingMax,
          oldestAt: counted === 0 ? null : (oldestQueued.get({ type }) ?? null),
        };
      });
    }),
  } satisfies Steps;
}
