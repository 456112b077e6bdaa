import { Loop, type LoopDeps } from "../deliver/loop.ts";
import { persist, type PersistDeps } from "../deliver/persist.ts";
import type { Store } from "../store/store.ts";

interface DelayedTasksDeps extends PersistDeps, Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "releaseDelayed">;
  /** Tasks of any types were let into the queue. */
  readonly released: () => void;
}

// In one write, so that others come in between.
const RELEASE_MAX = 1000;

/** Lets delayed tasks whose time has come into the queue. To be woken once a second. */
export function createDelayedTasks(deps: DelayedTasksDeps): Loop {
  const { store, clock, released, failed } = deps;
  return new Loop({
    failed,
    async round(loop) {
      const due = { now: clock.now(), max: RELEASE_MAX };
      const count = await persist(() => store.releaseDelayed(due), deps);
      // Otherwise the rest would wait for the next second.
      if (count === RELEASE_MAX) loop.wake();
      if (count > 0) released();
    },
  });
}
