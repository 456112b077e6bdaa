/**
 * A queue whose items are taken in turn by the first key of each, among those of one first key in turn by the second, and
 * so on; items with the same keys in the order in which they came. However many come under one key, another waits for
 * one of them at a time.
 */
export class TurnQueue<Item> {
  readonly #root: Lane<Item> = new Map();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** `keys`: one at least, and of all items as many. */
  push(item: Item, keys: readonly string[]): void {
    let lane = this.#root;
    for (const key of keys.slice(0, -1)) {
      const known = lane.get(key);
      const next: Lane<Item> = known instanceof Map ? known : new Map();
      lane.set(key, next);
      lane = next;
    }
    const last = keys.at(-1) ?? "";
    const items = lane.get(last);
    if (Array.isArray(items)) items.push(item);
    else lane.set(last, [item]);
    this.#size++;
  }

  /** The item whose turn it is; undefined when there is none. */
  shift(): Item | undefined {
    if (this.#size === 0) return undefined;
    this.#size--;
    return take(this.#root);
  }
}

/** Whoever is first has the next turn. */
type Lane<Item> = Map<string, Lane<Item> | Item[]>;

function take<Item>(lane: Lane<Item>): Item | undefined {
  const [first] = lane;
  if (first === undefined) return undefined;
  const [key, rest] = first;
  lane.delete(key);
  const item = Array.isArray(rest) ? rest.shift() : take(rest);
  const isEmpty = Array.isArray(rest) ? rest.length === 0 : rest.size === 0;
  if (!isEmpty) lane.set(key, rest);
  return item;
}
