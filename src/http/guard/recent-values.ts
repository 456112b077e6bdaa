import type { Clock } from "../../domain/clock/clock.ts";

export interface RecentValuesOptions<Key> {
  readonly clock: Pick<Clock, "monotonic">;
  readonly ageMsMax: number;
  /** A number that changes with the value's source: after a change the value is too old, whatever its age. */
  readonly versionOf: (key: Key) => number;
}

interface Recent<Value> {
  readonly at: number;
  readonly version: number;
  readonly value: Promise<Value>;
}

/**
 * Values that are computed anew when they are too old, and shared by everybody who asks meanwhile, so that many
 * requests for one cost no more than a single request. A failure is shared by those who wait for it and then
 * forgotten.
 */
export class RecentValues<Key, Value> {
  readonly #options: RecentValuesOptions<Key>;
  // In the order in which they were computed.
  readonly #recent = new Map<Key, Recent<Value>>();

  constructor(options: RecentValuesOptions<Key>) {
    this.#options = options;
  }

  /** The value of a key, from `decide` where no recent one exists. */
  get(key: Key, decide: () => Promise<Value>): Promise<Value> {
    const now = this.#options.clock.monotonic();
    this.#forgetOld(now);
    const version = this.#options.versionOf(key);
    const known = this.#recent.get(key);
    if (known?.version === version) return known.value;
    const recent = { at: now, version, value: decide() };
    // It goes behind the older ones.
    this.#recent.delete(key);
    this.#recent.set(key, recent);
    recent.value.catch(() => {
      if (this.#recent.get(key) === recent) this.#recent.delete(key);
    });
    return recent.value;
  }

  #forgetOld(now: number): void {
    for (const [key, { at }] of this.#recent) {
      if (now - at < this.#options.ageMsMax) return;
      this.#recent.delete(key);
    }
  }
}
