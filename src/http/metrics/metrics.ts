import { weighted } from "../guard/client.ts";
import { SERIES, type SeriesName } from "./series.ts";

/** How metrics are written: as Prometheus' text format 0.0.4, or as OpenMetrics 1.0.0. */
export type MetricsFormat = "prometheus" | "openmetrics";

export const CONTENT_TYPES: Readonly<Record<MetricsFormat, string>> = {
  prometheus: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/**
 * The format that an `Accept` header asks for. OpenMetrics only if it is named and no other type is preferred; else
 * Prometheus' own format.
 */
export function formatOf(accept: readonly string[]): MetricsFormat {
  let best = 0;
  let format: MetricsFormat = "prometheus";
  for (const { name, parameters, quality } of weighted(accept)) {
    if (quality <= best) continue;
    best = quality;
    const isAsked = name === "application/openmetrics-text" && isVersionOne(parameters);
    format = isAsked ? "openmetrics" : "prometheus";
  }
  return format;
}

// Prometheus asks for 0.0.1 too, whose texts are the same to it. A later version may not be.
function isVersionOne(parameters: readonly string[]): boolean {
  const version = parameters.find((parameter) => parameter.startsWith("version="));
  return version === undefined || /^version="?(?:1\.0\.0|0\.0\.1)"?$/.test(version);
}

/** Writes the families, each name once, in their order. A family without values is left out. */
export function exposition(families: readonly Family[], format: MetricsFormat): string {
  const lines: string[] = [];
  for (const family of families) {
    if (family.samples.length === 0 && family.distributions.length === 0) continue;
    addHead(lines, family, format);
    const { labels } = SERIES[family.name];
    for (const sample of family.samples) {
      lines.push(`${family.name}${braced(pairs(labels, sample.labels))} ${number(sample.value)}`);
    }
    for (const each of family.distributions) {
      addDistribution(lines, { ...each, name: family.name }, format);
    }
  }
  if (format === "openmetrics") lines.push("# EOF");
  return `${lines.join("\n")}\n`;
}

function addHead(lines: string[], { name }: Family, format: MetricsFormat): void {
  const { kind, help } = SERIES[name];
  // OpenMetrics names a counter without the suffix that its samples have.
  const isPlain = format === "prometheus" || kind !== "counter";
  const shown = isPlain ? name : name.replace(/_total$/, "");
  lines.push(`# HELP ${shown} ${escapedHelp(help, format)}`, `# TYPE ${shown} ${kind}`);
}

function addDistribution(
  lines: string[],
  { name, labels, counts, sum }: Distribution & Pick<Family, "name">,
  format: MetricsFormat,
): void {
  const { labels: names, bounds } = SERIES[name];
  const own = pairs(names, labels);
  let total = 0;
  counts.forEach((count, i) => {
    total += count;
    const bound = boundText(bounds[i] ?? Number.POSITIVE_INFINITY, format);
    lines.push(`${name}_bucket${braced([...own, `le="${bound}"`])} ${total}`);
  });
  lines.push(`${name}_sum${braced(own)} ${number(sum)}`, `${name}_count${braced(own)} ${total}`);
}

function pairs(names: readonly string[], values: readonly string[]): readonly string[] {
  return names.map((name, i) => `${name}="${escapedLabel(values[i] ?? "")}"`);
}

function braced(texts: readonly string[]): string {
  return texts.length === 0 ? "" : `{${texts.join(",")}}`;
}

// OpenMetrics §bucket: "le" is a float, and a whole one has its ".0".
function boundText(bound: number, format: MetricsFormat): string {
  const text = number(bound);
  return format === "openmetrics" && /^\d+$/.test(text) ? `${text}.0` : text;
}

function number(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}

function escapedLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

// Only OpenMetrics escapes quotes in a help text.
function escapedHelp(help: string, format: MetricsFormat): string {
  const escaped = help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
  return format === "openmetrics" ? escaped.replaceAll('"', '\\"') : escaped;
}

/** A number with the values of its series' labels, in their order. */
export interface Sample {
  readonly labels: readonly string[];
  readonly value: number;
}

/** Counts of what fell into each bucket of a histogram; the last count is of what is above all bounds. */
interface Distribution {
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
