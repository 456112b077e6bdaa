const EVERY_MS = 1000;
// An hour of looks each second, or days of one each minute.
const KEPT_MAX = 3600;

/**
 * Remembers when which transaction was the next one: nothing else tells how long ago a slot was used last, and the times
 * of other users' sessions are hidden from all but monitors.
 */
export class TransactionTimes {
  readonly #now: () => number;
  /** The oldest first. */
  readonly #looks: { readonly next: number; readonly at: number }[] = [];

  /** `now` answers milliseconds that nobody sets. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** At this moment `next` is the number of the next transaction. */
  note(next: number): void {
    const at = this.#now();
    const last = this.#looks.at(-1);
    // Another server, whose numbers begin elsewhere.
    if (last !== undefined && next < last.next) this.#looks.length = 0;
    else if (last !== undefined && at - last.at < EVERY_MS) return;
    this.#looks.push({ next, at });
    if (this.#looks.length > KEPT_MAX) this.#looks.shift();
  }

  /** How long ago the transaction had begun, at least; null when no look before the last one was after that. */
  sinceMs(transaction: number): number | null {
    const after = this.#looks.find(({ next }) => next > transaction);
    if (after === undefined || after === this.#looks.at(-1)) return null;
    return Math.round(this.#now() - after.at);
  }
}
