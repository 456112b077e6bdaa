import type { Config } from "../config/config.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { decideServiceStatus, type ServiceStatus } from "../domain/stats/health.ts";
import type { Engine } from "../run/engine.ts";
import { StoreError, type Store } from "../store/store.ts";
import { healthOfAll } from "./nodes.ts";

export interface StatusParts {
  readonly config: Pick<Config, "types">;
  readonly clock: Clock;
  readonly store: Store;
  readonly engine: Engine;
}

const STATUS_AGE_MS_MAX = 1000;

/** The service's status, decided anew when it is a second old: anybody may ask, as often as they like. */
export function statusSource(
  { config, clock, store, engine }: StatusParts,
  state: { readonly isAccepting: () => boolean; readonly hasRoom: () => Promise<boolean> },
): () => Promise<ServiceStatus> {
  const types = [...config.types.keys()];
  const decide = async (): Promise<ServiceStatus> =>
    decideServiceStatus({
      isServing: state.isAccepting() && store.fault() === null,
      queueAgeMs: await queueAge(() => store.findOldestQueued(types), clock.now()),
      hasRoom: await state.hasRoom(),
      isWorking: !engine.isHalted,
      ...(await healthOfAll({ store, engine })),
    });
  let decidedAt = Number.NEGATIVE_INFINITY;
  let status: Promise<ServiceStatus> | null = null;
  return () => {
    const now = clock.monotonic();
    if (status === null || now - decidedAt >= STATUS_AGE_MS_MAX) {
      status = decide();
      decidedAt = now;
    }
    return status;
  };
}

async function queueAge(oldest: () => Promise<number | null>, now: number): Promise<number> {
  try {
    const since = await oldest();
    return since === null ? 0 : Math.max(0, now - since);
  } catch (error) {
    // A store that cannot be read is not serving, which the status tells already.
    if (error instanceof StoreError) return 0;
    throw error;
  }
}
