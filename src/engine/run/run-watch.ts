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
  /** What the daemon itself runs now. */
  readonly runs: () => readonly WatchedRun[];
  /** The task of this run was cancelled or erased, and not by this process. */
  readonly ended: (id: string) => void;
  /** The store can be read no more. */
  readonly failed: (error: unknown) => void;
}

/**
 * Notices tasks that another process cancelled or erased while this one runs them: of what this process ends itself
 * nothing runs any more when it is written. What has ended never runs again, so that an answer is never too old.
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
