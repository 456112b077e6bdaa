import { wait } from "../domain/clock/clock.ts";
import type { LoopDeps } from "../store/loop.ts";
import { keepTrying, type RetryDeps } from "../store/retry.ts";
import type { Cluster, Store } from "../store/store.ts";

interface TimeShiftsDeps extends RetryDeps, Pick<LoopDeps, "failed"> {
  readonly store: Pick<Store, "shiftTimes" | "hastenAttempts">;
  readonly cluster: Pick<Cluster, "holds">;
  /** Waits before each retry, counted from the failure. */
  readonly retryAfterMs: readonly number[];
}

// The nodes ask the database for the time every 2 s, so they notice within seconds of each other that it was set.
const SHIFT_BY_OTHERS_MS = 5000;

/** Moves what is scheduled in the store by the amount that the wall clock was set. */
export class TimeShifts {
  /** By how much the wall clock was set since the start, in total. */
  setMs = 0;
  /** Settles when what was last set is on disk. */
  last: Promise<void> = Promise.resolve();
  readonly #deps: TimeShiftsDeps;
  #underWay = 0;

  constructor(deps: TimeShiftsDeps) {
    this.#deps = deps;
  }

  /** True between the clock being set and everything having moved with it. */
  get isUnderWay(): boolean {
    return this.#underWay > 0;
  }

  /** Settles when everything has moved; another node whose role it is gets some seconds for it. */
  begin(byMs: number): Promise<void> {
    const { clock, giveUp: signal, cluster, failed } = this.#deps;
    this.setMs += byMs;
    this.#underWay++;
    const moved = cluster.holds("clock")
      ? this.#write(byMs)
      : wait(SHIFT_BY_OTHERS_MS, { clock, signal });
    this.last = moved.catch(failed).finally(() => this.#underWay--);
    return this.last;
  }

  /** Lets nothing wait for longer than a retry does: a clock that was wrong by years at the start is soon set right. */
  async hasten(): Promise<void> {
    const { store, clock, retryAfterMs, log } = this.#deps;
    const waitMsMax = Math.max(0, ...retryAfterMs);
    const hasten = (): Promise<number> => {
      const now = clock.now();
      return store.hastenAttempts({ now, latest: now + waitMsMax });
    };
    const hastened = await keepTrying(hasten, this.#deps);
    if (hastened === 0) return;
    log.warn(
      { hastened },
      "attempts that were scheduled later than any retry can be are sent sooner",
    );
  }

  async #write(byMs: number): Promise<void> {
    const { store, clock } = this.#deps;
    const now = clock.now();
    const shift = { after: Math.min(now, now - byMs), by: byMs };
    // While this waits for room on the disk, writes that come meanwhile may be done before it and be moved too.
    await keepTrying(() => store.shiftTimes(shift), this.#deps);
    await this.hasten();
  }
}
