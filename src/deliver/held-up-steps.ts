import type { Clock } from "../domain/clock/clock.ts";
import { MINUTE_MS } from "../domain/clock/duration.ts";
import type { Logger } from "../domain/log.ts";
import type { StoreError } from "../store/store.ts";

const EVERY_MS = MINUTE_MS;

/**
 * Logs that steps wait for the store: one line when the first of them begins to wait, one a minute with their number
 * while any waits, and one when the last has been done. A wait that begins again within the minute is not logged anew.
 */
export class HeldUpSteps {
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
