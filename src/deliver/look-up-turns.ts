/** The owner of look-ups, which are counted together; null is the daemon's own. */
export type LookUpOwner = number | null;

/** An owner's look-ups, under way and waiting. */
interface Line {
  underWay: number;
  readonly waiting: Set<() => void>;
}

// A name server that does not answer holds each look-up for 6 s. More at once would be lost on their way to a server
// that does answer.
const UNDER_WAY_MAX = 128;
// An owner may take up to so many times the places that it leaves free: 96 of 128 while it is alone. So a newcomer
// finds a place at once.
const TIMES_LEFT = 3;

/**
 * Limits the look-ups under way and lets owners take turns. The owner with the fewest under way is next; among
 * equals, the one that has waited longest. An account with a thousand names that nobody answers for delays its own
 * look-ups only.
 */
export class LookUpTurns {
  /** The owners with look-ups under way or waiting, in the order of their last turns. */
  readonly #lines = new Map<LookUpOwner, Line>();
  #underWay = 0;

  /**
   * Settles when it is this owner's turn, with a function that ends it, to be called once. Settles with null when the
   * signal is aborted first.
   */
  take(owner: LookUpOwner, signal: AbortSignal): Promise<(() => void) | null> {
    if (signal.aborted) return Promise.resolve(null);
    const line = this.#lines.get(owner) ?? { underWay: 0, waiting: new Set() };
    this.#lines.set(owner, line);
    return new Promise((resolve) => {
      const begin = (): void => {
        signal.removeEventListener("abort", cut);
        resolve(() => this.#end(owner, line));
      };
      const cut = (): void => {
        line.waiting.delete(begin);
        this.#dropEmpty(owner, line);
        resolve(null);
      };
      signal.addEventListener("abort", cut, { once: true });
      line.waiting.add(begin);
      this.#beginNext();
    });
  }

  #end(owner: LookUpOwner, line: Line): void {
    this.#underWay--;
    line.underWay--;
    this.#dropEmpty(owner, line);
    this.#beginNext();
  }

  // Where the owner with the fewest has no room, no owner has.
  #beginNext(): void {
    for (;;) {
      const waiting = [...this.#lines].filter(([, line]) => line.waiting.size > 0);
      const least = Math.min(...waiting.map(([, line]) => line.underWay));
      const [owner, line] = waiting.find(([, each]) => each.underWay === least) ?? [];
      const [begin] = line?.waiting ?? [];
      if (owner === undefined || line === undefined || begin === undefined) return;
      if (line.underWay >= TIMES_LEFT * (UNDER_WAY_MAX - this.#underWay)) return;
      line.waiting.delete(begin);
      line.underWay++;
      this.#underWay++;
      this.#lines.delete(owner);
      this.#lines.set(owner, line);
      begin();
    }
  }

  #dropEmpty(owner: LookUpOwner, line: Line): void {
    if (line.underWay === 0 && line.waiting.size === 0) this.#lines.delete(owner);
  }
}
