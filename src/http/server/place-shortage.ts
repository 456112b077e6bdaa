import type { Clock } from "../../domain/clock/clock.ts";
import { MINUTE_MS } from "../../domain/clock/duration.ts";
import type { Logger } from "../../domain/log.ts";

/**
 * The fate of a connection that found no place: another one was closed for it, it got one of the reserve, or it was
 * refused.
 */
export type ShortageOutcome = "closed_others" | "over_reserve" | "refused";

const EVERY_MS = MINUTE_MS;
const NOTHING: Readonly<Record<ShortageOutcome, number>> = {
  closed_others: 0,
  over_reserve: 0,
  refused: 0,
};

/** Logs that places for connections run out: the first time at once, then once a minute at most, with counts. */
export class PlaceShortage {
  readonly #deps: { readonly clock: Clock; readonly log: Logger };
  /** Counts since the last line. */
  #counts = { ...NOTHING };
  #loggedAt: number | null = null;

  constructor(deps: { readonly clock: Clock; readonly log: Logger }) {
    this.#deps = deps;
  }

  note(what: ShortageOutcome): void {
    const { clock, log } = this.#deps;
    this.#counts[what]++;
    const now = clock.monotonic();
    if (this.#loggedAt !== null && now - this.#loggedAt < EVERY_MS) return;
    this.#loggedAt = now;
    log.warn(this.#counts, "there were more connections than places (limits.connections)");
    this.#counts = { ...NOTHING };
  }
}
