import type { Clock } from "../domain/clock.ts";
import type { Logger } from "../domain/log.ts";
import { wait } from "../domain/wait.ts";
import { StoreError } from "../store/store.ts";

const RETRY_AFTER_MS = 1000;

export interface PersistDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** Aborted when the process must end: a step that cannot be recorded now is left to the next start. */
  readonly giveUp: AbortSignal;
}

/**
 * Does a step of the engine's own work in the store, again and again while the store says that a later try
 * may succeed (disk full, file locked by another process): what a runner or a receiver did cannot be
 * undone, so its record must not be given up while the process lives. Rejects when the store has failed
 * for good or was closed, and with kind `closed` after `giveUp`: then the task is still running, or the
 * attempt in flight, on disk, and the next start takes it up.
 */
export async function persist<Value>(
  step: () => Promise<Value>,
  { clock, log, giveUp }: PersistDeps,
): Promise<Value> {
  for (;;) {
    try {
      return await step();
    } catch (error) {
      if (!(error instanceof StoreError) || !error.isPassing) throw error;
      if (giveUp.aborted) {
        throw new StoreError("closed", "stopped before it could be recorded", { cause: error });
      }
      log.warn({ kind: error.kind }, `${error.message}; trying again`);
    }
    await wait(RETRY_AFTER_MS, { clock, signal: giveUp });
  }
}
