/** An entry of a {@link RankHeap}: its rank, and its place in the heap. */
export interface HeapEntry {
  /** Compared before the rank. */
  weight: number;
  /** After a change of it, or of the weight, while the entry is in a heap, `put` must be called again. */
  rank: number;
  /** For the heap alone; -1 while the entry is in none. An entry is in one heap at a time. */
  heapIndex: number;
}

/** An entry that is in no heap yet. */
export const NEW_ENTRY: HeapEntry = { weight: 0, rank: 0, heapIndex: -1 };

/** A binary heap: lowest weight first, then lowest rank. Each entry knows its place, so that it is in it only once. */
export class RankHeap<Entry extends HeapEntry> {
  readonly #entries: Entry[] = [];

  get first(): Entry | undefined {
    return this.#entries[0];
  }

  /** Adds an entry, or moves it to the place of its changed rank. */
  put(entry: Entry): void {
    if (entry.heapIndex === -1) this.#set(this.#entries.length, entry);
    this.#sift(entry);
  }

  /** Takes an entry out; one that is in no heap stays out. */
  remove(entry: Entry): void {
    if (entry.heapIndex === -1) return;
    const last = this.#entries.pop();
    if (last !== undefined && last !== entry) {
      this.#set(entry.heapIndex, last);
      this.#sift(last);
    }
    entry.heapIndex = -1;
  }

  #set(index: number, entry: Entry): void {
    this.#entries[index] = entry;
    entry.heapIndex = index;
  }

  #sift(entry: Entry): void {
    const parent = this.#entries[(entry.heapIndex - 1) >> 1];
    if (parent !== undefined && isBefore(entry, parent)) this.#siftUp(entry);
    else this.#siftDown(entry);
  }

  #siftUp(entry: Entry): void {
    while (entry.heapIndex > 0) {
      const parent = this.#entries[(entry.heapIndex - 1) >> 1];
      if (parent === undefined || !isBefore(entry, parent)) return;
      this.#swap(entry, parent);
    }
  }

  #siftDown(entry: Entry): void {
    for (;;) {
      const left = this.#entries[2 * entry.heapIndex + 1];
      const right = this.#entries[2 * entry.heapIndex + 2];
      const isRight = left !== undefined && right !== undefined && isBefore(right, left);
      const child = isRight ? right : left;
      if (child === undefined || !isBefore(child, entry)) return;
      this.#swap(entry, child);
    }
  }

  #swap(one: Entry, other: Entry): void {
    const index = one.heapIndex;
    this.#set(other.heapIndex, one);
    this.#set(index, other);
  }
}

function isBefore(one: HeapEntry, other: HeapEntry): boolean {
  return one.weight === other.weight ? one.rank < other.rank : one.weight < other.weight;
}
