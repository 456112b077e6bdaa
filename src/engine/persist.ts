import type { Clock } from "../domain/clock/clock.ts";
import { wait } from "../domain/clock/wait.ts";
import type { Logger } from "../domain/log.ts";
import { StoreError } from "../store/store.ts";
import { HeldUpSteps } from "./held-up-steps.ts";

const RETRY_AFTER_MS = 1000;

export interface PersistDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** Is told of the steps that wait for the store. The engine's share one; without it each tells of itself. */
  readonly heldUp?: HeldUpSteps;
  /** Aborted when the process must end: a step that cannot be recorded now is left to the next start. */
  readonly giveUp: AbortSignal;
}

/**
 * Does a step of the engine's own work in the store, again and again while the store says that nothing of it has happened
 * and a later try may succeed (disk full, file locked by another process, server unreachable): what a runner or a receiver did cannot be
 * undone, so its record must not be given up while the process lives. Rejects when the store has failed for good or was
 * closed, when nobody knows whether the step has happened (`unknown`: to try again might do it twice), and with kind
 * `closed` after `giveUp`: then the task is still running, or the attempt in flight, on disk, and the next start takes
 * it up.
 */
export async function persist<Value>(
  step: () => Promise<Value>,
  deps: PersistDeps,
): Promise<Value> {
  try {
    return await step();
  } catch (error) {
    return keepTrying(step, passing(error), deps);
  }
}

async function keepTrying<Value>(
  step: () => Promise<Value>,
  first: StoreError,
  deps: PersistDeps,
): Promise<Value> {
  const { clock, giveUp, heldUp = new HeldUpSteps(deps) } = deps;
  let isDone = false;
  heldUp.begin();
  try {
    for (let error = first; ;) {
      if (giveUp.aborted) {
        throw new StoreError("closed", "stopped before it could be recorded", { cause: error });
      }
      heldUp.tried(error);
      await wait(RETRY_AFTER_MS, { clock, signal: giveUp });
      try {
        const value = await step();
        isDone = true;
        return value;
      } catch (thrown) {
        error = passing(thrown);
      }
    }
  } finally {
    heldUp.end({ isDone });
  }
}

/** The error where a later try may succeed; throws any other. */
function passing(error: unknown): StoreError {
  if (error instanceof StoreError && error.isPassing) return error;
  throw error;
}
