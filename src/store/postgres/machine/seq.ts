/** Numbers of rows, known before the insert: they rise with time across all nodes, and none is ever given again. */

// Milliseconds since then are the upper part of a number: so numbers stay below 2^53 until 2094.
const EPOCH = Date.UTC(2025, 0, 1);
const PER_MS = 4096;
/** How many nodes may share a database: each has a slot of its own in every millisecond. */
export const SLOTS = 32;
const PER_SLOT = PER_MS / SLOTS;

/** Makes the numbers of one node. Where a millisecond has no more, the next one's are taken in advance. */
export class SeqSource {
  readonly #now: () => number;
  readonly #slot: number;
  #ms = 0;
  #count = 0;

  /** `last` is the greatest number that any row has. */
  constructor(now: () => number, slot: number, last: number) {
    this.#now = now;
    this.#slot = slot;
    this.#ms = Math.floor(last / PER_MS);
    // The next one is of the next millisecond.
    this.#count = PER_SLOT - 1;
  }

  next(): number {
    const ms = this.#now() - EPOCH;
    if (ms > this.#ms) {
      this.#ms = ms;
      this.#count = 0;
    } else if (++this.#count === PER_SLOT) {
      this.#ms++;
      this.#count = 0;
    }
    return this.#ms * PER_MS + this.#slot * PER_SLOT + this.#count;
  }
}

/** The smallest number that a row of this time can have. */
export function firstSeqOf(time: number): number {
  return Math.max(0, time - EPOCH) * PER_MS;
}
