import { SERIES, type SeriesName } from "./series.ts";

/** A number with the values of its series' labels, in their order. */
export interface Sample {
  readonly labels: readonly string[];
  readonly value: number;
}

/** Counts of what fell into each bucket of a histogram; the last count is of what is above all bounds. */
export interface Distribution {
  readonly labels: readonly string[];
  readonly counts: readonly number[];
  readonly sum: number;
}

/** The values of a series at a moment. */
export interface Family {
  readonly name: SeriesName;
  readonly samples: readonly Sample[];
  /** Of a histogram, which has no samples. */
  readonly distributions: readonly Distribution[];
}

/** A series that only grows. */
export class Counter {
  readonly #name: SeriesName;
  readonly #values = new Map<string, { readonly labels: readonly string[]; value: number }>();

  constructor(name: SeriesName) {
    this.#name = name;
    // Without labels it is known from the start, so that a first event shows as a rise.
    if (SERIES[name].labels.length === 0) this.add([], 0);
  }

  add(labels: readonly string[], by = 1): void {
    const key = labels.join("\n");
    const known = this.#values.get(key);
    if (known === undefined) this.#values.set(key, { labels, value: by });
    else known.value += by;
  }

  get family(): Family {
    return { name: this.#name, samples: [...this.#values.values()], distributions: [] };
  }
}

interface Buckets extends Distribution {
  readonly counts: number[];
  sum: number;
}

/** A series of values by their size. */
export class Histogram {
  readonly #name: SeriesName;
  readonly #bounds: readonly number[];
  readonly #values = new Map<string, Buckets>();

  constructor(name: SeriesName) {
    this.#name = name;
    this.#bounds = SERIES[name].bounds;
    if (SERIES[name].labels.length === 0) this.#of([]);
  }

  observe(labels: readonly string[], value: number): void {
    const buckets = this.#of(labels);
    const found = this.#bounds.findIndex((bound) => value <= bound);
    const place = found === -1 ? this.#bounds.length : found;
    buckets.counts[place] = (buckets.counts[place] ?? 0) + 1;
    buckets.sum += value;
  }

  get family(): Family {
    return { name: this.#name, samples: [], distributions: [...this.#values.values()] };
  }

  #of(labels: readonly string[]): Buckets {
    const key = labels.join("\n");
    const known = this.#values.get(key);
    if (known !== undefined) return known;
    const counts = Array.from({ length: this.#bounds.length + 1 }, () => 0);
    const buckets = { labels, counts, sum: 0 };
    this.#values.set(key, buckets);
    return buckets;
  }
}

/** A series as it is now: a number for each of its labels' values, or one number. Unknown ones (null) are left out. */
export function gauge(name: SeriesName, values: number | null | readonly Sample[]): Family {
  if (values === null) return { name, samples: [], distributions: [] };
  const samples = typeof values === "number" ? [{ labels: [], value: values }] : values;
  return { name, samples, distributions: [] };
}

const OTHER = "other";

/** The values of a label `type`: names as they come, up to `max` of them; then all new ones are `other`. */
export class TypeNames {
  readonly #max: number;
  readonly #known = new Set<string>();

  constructor(max: number) {
    this.#max = max;
  }

  of(type: string | null): string {
    if (type === null) return OTHER;
    if (this.#known.has(type)) return type;
    if (this.#known.size >= this.#max) return OTHER;
    this.#known.add(type);
    return type;
  }
}
