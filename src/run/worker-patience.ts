import type { Clock } from "../domain/clock/clock.ts";
import { StoreError, type Cluster } from "../store/store.ts";

// As a client that posts does.
const PATIENCE_MS = 5000;

interface PatienceDeps {
  readonly clock: Clock;
  readonly cluster: Pick<Cluster, "isShared">;
}

/**
 * Settles as the step does. Where nodes share the store, whose server may be out of reach, it rejects with a StoreError
 * of kind `unknown` when that takes too long for a worker that waits; the step goes on.
 */
export async function inTime<Value>(
  step: Promise<Value>,
  { clock, cluster }: PatienceDeps,
): Promise<Value> {
  if (!cluster.isShared) return step;
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = clock.setTimer(PATIENCE_MS, () =>
    reject(new StoreError("unknown", "the database does not answer; ask again")),
  );
  try {
    return await Promise.race([step, promise]);
  } finally {
    timer.cancel();
  }
}
