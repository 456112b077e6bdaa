import { type Clock, wait } from "../domain/clock/clock.ts";
import { MINUTE_MS } from "../domain/clock/duration.ts";
import type { Logger } from "../domain/log.ts";
import { StoreError } from "./store.ts";

const RETRY_AFTER_MS = 1000;

export interface RetryDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** Counts the steps that wait for the store. The parts of the engine share it; without it each step logs. */
  readonly waitingSteps?: WaitingSteps;
  /** Aborted when the process must end: a step that cannot be recorded now is left to the next start. */
  readonly giveUp: AbortSignal;
}

/**
 * Does a step of the engine's own work in the store, and repeats it while it has not happened and a later try may
 * succeed (disk full, file locked by another process, PostgreSQL unreachable). The work of a runner or receiver cannot
 * be undone, so its record is retried while the process lives. Rejects if the store has failed permanently or was
 * closed, and if the step may have happened (`unknown`: another try might do it twice). Rejects with kind `closed`
 * after `giveUp`: then the task is still running, or the attempt in flight, on disk, and the next start resumes it.
 */
export async function keepTrying<Value>(
  step: () => Promise<Value>,
  deps: RetryDeps,
): Promise<Value> {
  try {
    return await step();
  } catch (error) {
    return tryAgain(step, passing(error), deps);
  }
}

async function tryAgain<Value>(
  step: () => Promise<Value>,
  first: StoreError,
  deps: RetryDeps,
): Promise<Value> {
  const { clock, giveUp, waitingSteps = new WaitingSteps(deps) } = deps;
  let isDone = false;
  waitingSteps.begin();
  try {
    for (let error = first; ;) {
      if (giveUp.aborted) {
        throw new StoreError("closed", "stopped before it could be recorded", { cause: error });
      }
      waitingSteps.tried(error);
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
    waitingSteps.end({ isDone });
  }
}

/** True for an error that belongs to one step, mostly to its data: the store itself is sound. */
export function isRejected(error: unknown): boolean {
  return !(error instanceof StoreError);
}

/** The error, if a later try may succeed; throws any other. */
function passing(error: unknown): StoreError {
  if (error instanceof StoreError && error.isPassing) return error;
  throw error;
}

const EVERY_MS = MINUTE_MS;

/** Logs when the first step begins to wait, once a minute with their number, and when the last is done. */
export class WaitingSteps {
  readonly #deps: { readonly clock: Clock; readonly log: Logger };
  #waiting = 0;
  /** When it was logged last; monotonic. */
  #toldAt = Number.NEGATIVE_INFINITY;
  #isTold = false;

  constructor(deps: { readonly clock: Clock; readonly log: Logger }) {
    this.#deps = deps;
  }

  begin(): void {
    this.#waiting++;
  }

  /** A step that waits was tried in vain. */
  tried({ kind, message }: StoreError): void {
    const { clock, log } = this.#deps;
    const now = clock.monotonic();
    if (now - this.#toldAt < EVERY_MS) return;
    this.#toldAt = now;
    this.#isTold = true;
    log.warn(
      { kind, waiting: this.#waiting },
      `${message}; waiting steps are tried again every second`,
    );
  }

  /** A step no longer waits: it was done, or given up. */
  end({ isDone }: { readonly isDone: boolean }): void {
    this.#waiting--;
    if (this.#waiting > 0 || !this.#isTold) return;
    this.#isTold = false;
    if (isDone)
      this.#deps.log.info({}, "the database can be written again: no step waits any more");
  }
}
