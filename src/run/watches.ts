import type { DeliveryDispatcher } from "../deliver/delivery-dispatcher.ts";
import { scopeKey } from "../domain/webhook/delivery-pause.ts";
import { Loop, type LoopDeps } from "../store/loop.ts";
import { type RetryDeps, keepTrying } from "../store/retry.ts";
import type { Store } from "../store/store.ts";

/** Watches for changes of other processes in the store; each is woken once a second. */

interface WatchDeps<Reads extends keyof Store> extends RetryDeps, Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, Reads>;
}

/**
 * Notices which accounts any process disabled or enabled: each round reads the changes since the last one. The store
 * decides at each claim that nothing of a disabled account is claimed; this is for earlier claims, and for work that no
 * other part looks for again. `disabled` may be called again for a disabled account, and `enabled` for one that was
 * enabled before a round saw that it was disabled.
 */
export function createAccountWatch(
  deps: WatchDeps<"listSuspensionChanges"> & {
    readonly disabled: (accountIds: ReadonlySet<number>) => void;
    readonly enabled: (accountIds: ReadonlySet<number>) => void;
  },
): Loop {
  const { store, disabled, enabled, failed } = deps;
  let after = 0;
  return new Loop({
    failed,
    async round() {
      const { accounts, last } = await keepTrying(
        () => store.listSuspensionChanges({ after }),
        deps,
      );
      after = last;
      const idsOf = (areDisabled: boolean): ReadonlySet<number> =>
        new Set(
          accounts.flatMap((each) => (each.isDisabled === areDisabled ? each.accountId : [])),
        );
      const [off, on] = [idsOf(true), idsOf(false)];
      if (off.size > 0) disabled(off);
      if (on.size > 0) enabled(on);
    },
  });
}

/** Notices which webhooks any process pauses or resumes: each round reads a table of few rows. */
export function createPauseWatch(
  deps: WatchDeps<"listDeliveryPauses"> & {
    readonly deliveries: Pick<DeliveryDispatcher, "pauseOnly">;
  },
): Loop {
  const { store, deliveries, failed } = deps;
  let known = "";
  return new Loop({
    failed,
    async round() {
      const pauses = await keepTrying(() => store.listDeliveryPauses(), deps);
      const found = pauses.map(scopeKey).join("\n");
      if (found === known) return;
      await deliveries.pauseOnly(pauses);
      known = found;
    },
  });
}

/**
 * Notices tasks that another process cancelled or erased. `watched` returns the tasks that this process runs and those
 * that its clients wait for. Tasks that this process ends itself need no watch: their runs and waits are gone before
 * the write. An ended task never runs again, so a result is never outdated.
 */
export function createEndWatch(
  deps: WatchDeps<"findEndedTasks"> & {
    readonly watched: () => readonly string[];
    readonly ended: (id: string) => void;
  },
): Loop {
  const { store, watched, ended, failed } = deps;
  return new Loop({
    failed,
    async round() {
      const ids = watched();
      if (ids.length === 0) return;
      for (const id of await keepTrying(() => store.findEndedTasks({ ids }), deps)) ended(id);
    },
  });
}

// In one write, so that others come in between.
const RELEASE_MAX = 1000;

/** Queues delayed tasks whose time has come. `released` is called after tasks of any type were queued. */
export function createDelayedTasks(
  deps: WatchDeps<"releaseDelayed"> & { readonly released: () => void },
): Loop {
  const { store, clock, released, failed } = deps;
  return new Loop({
    failed,
    async round(loop) {
      const due = { now: clock.now(), max: RELEASE_MAX };
      const count = await keepTrying(() => store.releaseDelayed(due), deps);
      // Otherwise the rest would wait for the next second.
      if (count === RELEASE_MAX) loop.wake();
      if (count > 0) released();
    },
  });
}
