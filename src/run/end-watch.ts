import { Loop, type LoopDeps } from "../deliver/loop.ts";
import { persist, type PersistDeps } from "../deliver/persist.ts";
import type { Store } from "../store/store.ts";

interface EndWatchDeps extends PersistDeps, Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "findEndedTasks">;
  /** The tasks that the daemon itself runs now, and those that clients wait for: their ids. */
  readonly watched: () => readonly string[];
  /** This task was cancelled or erased, most likely not by this process. */
  readonly ended: (id: string) => void;
}

/**
 * Notices tasks that another process cancelled or erased while this one runs them, or a client of it waits for them: of
 * what this process ends itself nothing runs and nobody waits any more when it is written. What has ended never runs
 * again, so that an answer is never too old.
 */
export function createEndWatch(deps: EndWatchDeps): Loop {
  const { store, watched, ended, failed } = deps;
  return new Loop({
    failed,
    async round() {
      const ids = watched();
      if (ids.length === 0) return;
      for (const id of await persist(() => store.findEndedTasks({ ids }), deps)) ended(id);
    },
  });
}
