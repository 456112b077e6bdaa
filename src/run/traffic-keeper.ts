import { Loop, type LoopDeps } from "../deliver/loop.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { HOUR_MS } from "../domain/clock/duration.ts";
import type { Logger } from "../domain/log.ts";
import { StoreError, type Cluster, type Store } from "../store/store.ts";

interface TrafficKeeperDeps extends Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "sampleQueues" | "foldTraffic">;
  readonly cluster: Pick<Cluster, "holds">;
  readonly clock: Clock;
  readonly log: Logger;
}

// A day by the minute, and an hour more for those who look at the end of it.
const MINUTES_KEPT_MS = 25 * HOUR_MS;

/**
 * Notes at each round how much waits, and folds old minutes of traffic into hours, a whole hour at once. A round that
 * finds the store unable leaves the rest to the next one. Each of the two is done by the node whose role it is.
 */
export function createTrafficKeeper(deps: TrafficKeeperDeps): Loop {
  const { store, cluster, clock, log, failed } = deps;
  return new Loop({
    failed,
    async round(loop) {
      try {
        const now = clock.now();
        if (cluster.holds("sample")) await store.sampleQueues({ now });
        const before = now - MINUTES_KEPT_MS;
        const minutesBefore = before - (before % HOUR_MS);
        const mayFold = (): boolean => !loop.isDraining && cluster.holds("fold");
        while (mayFold() && (await store.foldTraffic({ minutesBefore })) === "more") continue;
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        log.warn({ kind: error.kind }, `traffic was not added up: ${error.message}`);
      }
    },
  });
}
