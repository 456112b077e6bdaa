/**
 * A queue whose items take turns by the first key of each, among those with one first key by the second, and so on;
 * items with the same keys keep their order. However many items one key has, another key waits for one of them at a
 * time.
 */
export class TurnQueue<Item> {
  readonly #root: Turns<Item> = new Map();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** `keys` has at least one key, and the same number for all items. */
  push(item: Item, keys: readonly string[]): void {
    let turns = this.#root;
    for (const key of keys.slice(0, -1)) {
      const known = turns.get(key);
      const next: Turns<Item> = known === undefined || Array.isArray(known) ? new Map() : known;
      turns.set(key, next);
      turns = next;
    }
    const last = keys.at(-1) ?? "";
    const items = turns.get(last);
    if (Array.isArray(items)) items.push(item);
    else turns.set(last, [item]);
    this.#size++;
  }

  /** The item whose turn it is; undefined when there is none. */
  shift(): Item | undefined {
    if (this.#size === 0) return undefined;
    this.#size--;
    return take(this.#root);
  }
}

/** The first entry has the next turn. */
type Turns<Item> = Map<string, Turns<Item> | Item[]>;

function take<Item>(turns: Turns<Item>): Item | undefined {
  const [first] = turns;
  if (first === undefined) return undefined;
  const [key, rest] = first;
  turns.delete(key);
  const item = Array.isArray(rest) ? rest.shift() : take(rest);
  const isEmpty = Array.isArray(rest) ? rest.length === 0 : rest.size === 0;
  if (!isEmpty) turns.set(key, rest);
  return item;
}
