import type { Store } from "../../store/store.ts";
import { Loop } from "../loop.ts";
import { persist, type PersistDeps } from "../persist.ts";

/** A run, by its task. */
export interface WatchedRun {
  readonly seq: number;
  readonly id: string;
}

export interface RunWatchDeps extends PersistDeps {
  readonly store: Pick<Store, "findEndedRuns">;
  /** The runs of the daemon itself. */
  readonly runs: () => readonly WatchedRun[];
  /** Another process cancelled or erased the task of this run. */
  readonly ended: (id: string) => void;
  /** The store can no longer be read. */
  readonly failed: (error: unknown) => void;
}

/**
 * Notices tasks that another process cancelled or erased while this one runs them; runs of tasks that this process ends
 * itself are stopped by then. A task that has ended never runs again, so an answer is never outdated.
 */
export function createRunWatch(deps: RunWatchDeps): Loop {
  const { store, ended, failed } = deps;
  return new Loop({
    failed,
    async round() {
      const runs = deps.runs();
      if (runs.length === 0) return;
      for (const id of await persist(() => store.findEndedRuns({ runs }), deps)) ended(id);
    },
  });
}
