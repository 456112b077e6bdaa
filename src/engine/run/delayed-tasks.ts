import type { Store } from "../../store/store.ts";
import { Loop } from "../loop.ts";
import { persist, type PersistDeps } from "../persist.ts";

export interface DelayedTasksDeps extends PersistDeps {
  readonly store: Pick<Store, "releaseDelayed">;
  /** Tasks were let into the queue, of whichever types. */
  readonly released: () => void;
  /** The store can write no more. */
  readonly failed: (error: unknown) => void;
}

// By one write, so that others come in between.
const RELEASE_MAX = 1000;

/** Lets delayed tasks into the queue whose time has come. To be woken once a second. */
export function createDelayedTasks(deps: DelayedTasksDeps): Loop {
  const { store, clock, released, failed } = deps;
  return new Loop({
    failed,
    async round(loop) {
      const due = { now: clock.now(), max: RELEASE_MAX };
      const count = await persist(() => store.releaseDelayed(due), deps);
      // Else the rest would wait for the next second.
      if (count === RELEASE_MAX) loop.wake();
      if (count > 0) released();
    },
  });
}
