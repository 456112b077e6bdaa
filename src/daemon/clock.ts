import { type Clock, wait } from "../domain/clock/clock.ts";
import { ClockWatch, decideResumption, readClocks } from "../domain/clock/service-clock.ts";
import type { Logger } from "../domain/log.ts";
import { StoreError, type Store } from "../store/store.ts";

export interface ClockParts {
  readonly machine: Clock;
  readonly store: Pick<Store, "findClockReading" | "resumeClock">;
  readonly log: Logger;
}

// Another daemon's batch holds its rows for some milliseconds; one that stands still, for the 10 s that the server gives it.
const BUSY_MS_MAX = 30_000;
const BUSY_PAUSE_MS = 100;

/** Opens the clock before anything else reads times, and moves what waits by as much as the clock was set meanwhile. */
export async function openClock({ machine, store, log }: ClockParts): Promise<ClockWatch> {
  const clock = new ClockWatch(machine);
  const last = await store.findClockReading();
  const { steadyAt, ...resumption } = decideResumption(last, readClocks(clock));
  clock.resumeSteady(steadyAt);
  const { stepMs, isElapsedKnown } = resumption;
  try {
    await whileBusy(machine, () =>
      store.resumeClock({ ...resumption, reading: readClocks(clock) }),
    );
  } catch (error) {
    // A full disk must not keep a daemon from serving what there is. But nothing may start before what waits has moved.
    if (!(error instanceof StoreError) || !error.isPassing || stepMs !== 0) throw error;
    log.warn({ kind: error.kind }, `the reading of the clocks was not kept: ${error.message}`);
  }
  if (stepMs !== 0) {
    log.warn(
      { byMs: stepMs },
      "the machine's clock was set since the last stop; scheduled work moves with it",
    );
  }
  if (!isElapsedKnown) {
    log.info(
      {},
      "the machine was rebooted since the last stop, and nothing proves how long it was off: " +
        "results are kept for that much longer, and sign-ins have ended",
    );
  }
  return clock;
}

async function whileBusy(clock: Clock, step: () => Promise<unknown>): Promise<void> {
  const since = clock.monotonic();
  for (;;) {
    try {
      await step();
      return;
    } catch (error) {
      const isBusy = error instanceof StoreError && error.kind === "busy";
      if (!isBusy || clock.monotonic() - since > BUSY_MS_MAX) throw error;
      await wait(BUSY_PAUSE_MS, { clock });
    }
  }
}
