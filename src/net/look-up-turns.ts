/** Whose look-ups count together; null is the daemon's own. */
export type LookUpOwner = number | null;

/** What an owner has under way and waiting. */
interface Line {
  underWay: number;
  readonly waiting: Set<() => void>;
}

// A name server that does not answer holds each look-up for 6 s. More at once would be lost on the way to a server that
// answers.
const UNDER_WAY_MAX = 128;
// An owner may have so many times what it leaves: 96, where it is alone. Who comes then finds a place at once.
const TIMES_LEFT = 3;

/**
 * So many look-ups at a time, owners in turn: who has fewest under way is next, of equal ones who waited longest. An
 * account whose thousand names nobody answers for holds up its own look-ups and those of nobody else.
 */
export class LookUpTurns {
  /** Those with something under way or waiting, in the order of their last turns. */
  readonly #lines = new Map<LookUpOwner, Line>();
  #underWay = 0;

  /**
   * Settles when it is this owner's turn, with what ends it, to be called once. Null when the signal is aborted before.
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

  // Where the one with fewest has no room, nobody has.
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
