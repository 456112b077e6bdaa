/**
 * Finds, while an object is written, names that occur twice. As in JavaScript, the last value of such a name counts, in
 * the place of the first. It keeps the positions of members instead of their text: an object of a million members takes
 * some bytes for each.
 */
export class MemberNames {
  readonly #out: Uint8Array;
  /** The start of each member's name, at its quote, and its end. */
  readonly #starts: number[] = [];
  readonly #ends: number[] = [];
  #count = 0;
  /** By the hash of the name, the member that had the name first, counted from 1; 0 is free. */
  #slots = new Int32Array(SLOTS_MIN);
  /** The member that gave the last value, by the member that had its name first. */
  #lastOf: Map<number, number> | null = null;

  /** `out` is where they are written. */
  constructor(out: Uint8Array) {
    this.#out = out;
  }

  /** True if a name occurred twice: the object has to be arranged. */
  get hasRepeated(): boolean {
    return this.#lastOf !== null;
  }

  clear(): void {
    this.#count = 0;
    // A table of millions must not be cleared for each small object after it.
    if (this.#slots.length === SLOTS_MIN) this.#slots.fill(0);
    else this.#slots = new Int32Array(SLOTS_MIN);
    this.#lastOf = null;
  }

  /** Adds the next member: its name, with its quotes, is written from `start` to `end`. */
  add(start: number, end: number): void {
    const member = this.#count++;
    this.#starts[member] = start;
    this.#ends[member] = end;
    if (this.#count * 2 > this.#slots.length) this.#grow();
    const first = this.#enter(member);
    if (first === member) return;
    this.#lastOf ??= new Map();
    this.#lastOf.set(first, member);
  }

  /** Writes the whole object, from `start` to `end`, with each name once, and returns where it ends then. */
  arrange(start: number, end: number): number {
    const out = this.#out;
    const written = out.slice(start, end);
    let at = start + 1;
    const copy = (from: number, to: number): void => {
      for (let i = from - start; i < to - start; i++) out[at++] = written[i] ?? 0;
    };
    for (const member of this.#firsts()) {
      if (at > start + 1) out[at++] = COMMA;
      copy(this.#starts[member] ?? 0, this.#ends[member] ?? 0);
      const value = this.#lastOf?.get(member) ?? member;
      // From the colon to the comma before the next name, or to the closing bracket.
      const next = value + 1 < this.#count ? this.#starts[value + 1] : end;
      copy(this.#ends[value] ?? 0, (next ?? end) - 1);
    }
    out[at++] = OBJECT_CLOSE;
    return at;
  }

  /** The members that had their names first. Names are read where they were written: to be called before they move. */
  #firsts(): readonly number[] {
    const firsts: number[] = [];
    for (let member = 0; member < this.#count; member++) {
      if (this.#enter(member) === member) firsts.push(member);
    }
    return firsts;
  }

  /** The first member with the same name: this one, if no earlier one exists. */
  #enter(member: number): number {
    const mask = this.#slots.length - 1;
    let slot = this.#hash(member) & mask;
    for (;;) {
      const held = (this.#slots[slot] ?? 0) - 1;
      if (held === member || (held !== -1 && this.#isSame(held, member))) return held;
      if (held === -1) break;
      slot = (slot + 1) & mask;
    }
    this.#slots[slot] = member + 1;
    return member;
  }

  #isSame(a: number, b: number): boolean {
    const out = this.#out;
    const [startA = 0, startB = 0] = [this.#starts[a], this.#starts[b]];
    const length = (this.#ends[a] ?? 0) - startA;
    if ((this.#ends[b] ?? 0) - startB !== length) return false;
    for (let i = 1; i < length; i++) if (out[startA + i] !== out[startB + i]) return false;
    return true;
  }

  #hash(member: number): number {
    const out = this.#out;
    const end = (this.#ends[member] ?? 0) - 1;
    let hash = SEED;
    for (let at = (this.#starts[member] ?? 0) + 1; at < end; at++) {
      hash = Math.imul(hash ^ (out[at] ?? 0), FACTOR);
      hash ^= hash >>> 15;
    }
    return hash ^ (hash >>> 16);
  }

  #grow(): void {
    this.#slots = new Int32Array(this.#slots.length * 4);
    // The caller enters the new one.
    for (let member = 0; member < this.#count - 1; member++) this.#enter(member);
  }
}

const COMMA = 0x2c;
const OBJECT_CLOSE = 0x7d;
const SLOTS_MIN = 32;

// Secret: a sender who knew them could choose names that all have the same place.
const [SEED = 0, RANDOM = 0] = crypto.getRandomValues(new Int32Array(2));
const FACTOR = RANDOM | 1;
