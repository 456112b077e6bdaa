/** Random choices, equal for equal seeds: mulberry32, which has to be uniform, not secret. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to and without 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `min` up to and with `max`. */
  between(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  /** True so often. */
  chance(share: number): boolean {
    return this.next() < share;
  }

  /** One of the names, each as often as its weight says. */
  choose<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const entries = Object.entries<number>(weights);
    const sum = entries.reduce((total, [, weight]) => total + weight, 0);
    let left = this.next() * sum;
    for (const [name, weight] of entries) {
      left -= weight;
      // The names are the keys of the parameter: entries() only forgets it.
      if (left < 0) return name as Name;
    }
    throw new Error("there is nothing to choose from");
  }

  /** A seed for choices of their own, so that what one part draws does not move what another does. */
  fork(): number {
    return Math.floor(this.next() * 2 ** 32);
  }
}
