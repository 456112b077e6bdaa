import { median } from "../kit/durations.ts";

/** The resources of a daemon at a moment of its life. */
export interface Sample {
  /** Milliseconds since its start. */
  readonly atMs: number;
  readonly rssBytes: number;
  readonly descriptors: number;
}

/** How something went over a stretch of time. */
export interface Trend {
  readonly min: number;
  readonly max: number;
  /** Of the straight line that fits best; 0 for fewer than two samples. */
  readonly perMinute: number;
  /** The median of the last third less that of the middle one. */
  readonly grown: number;
}

// Shorter stretches end before caches are full and code is compiled: of those nothing is said.
const JUDGED_MS_MIN = 5 * 60_000;
// The collector's own ups and downs between two medians; a leak of 100 bytes a task is more in half an hour.
const GROWN_BYTES_MAX = 30e6;
const GROWN_DESCRIPTORS_MAX = 16;

/** The trend of one figure. */
export function trendOf(samples: readonly Sample[], value: (sample: Sample) => number): Trend {
  const values = samples.map(value);
  const third = Math.floor(values.length / 3);
  const last = values.slice(values.length - third);
  const middle = values.slice(third, values.length - third);
  return {
    min: Math.min(...values),
    max: Math.max(...values),
    perMinute: slope(samples, value) * 60_000,
    grown: third > 0 ? median(last) - median(middle) : 0,
  };
}

/** By the method of least squares, for each millisecond. */
function slope(samples: readonly Sample[], value: (sample: Sample) => number): number {
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, each) => sum + each, 0) / values.length;
  const [meanAt, meanValue] = [mean(samples.map(({ atMs }) => atMs)), mean(samples.map(value))];
  let [product, square] = [0, 0];
  for (const sample of samples) {
    product += (sample.atMs - meanAt) * (value(sample) - meanValue);
    square += (sample.atMs - meanAt) ** 2;
  }
  return square > 0 ? product / square : 0;
}

/** Figures that grow and must not, over a life that is long enough to show it. */
export function judgeFlat(samples: readonly Sample[]): readonly string[] {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined) return [];
  if (last.atMs - first.atMs < JUDGED_MS_MIN) return [];
  const rss = trendOf(samples, ({ rssBytes }) => rssBytes);
  const descriptors = trendOf(samples, (sample) => sample.descriptors);
  return [
    ...(rss.grown > GROWN_BYTES_MAX ? [`memory grew by ${(rss.grown / 1e6).toFixed(0)} MB`] : []),
    ...(descriptors.grown > GROWN_DESCRIPTORS_MAX
      ? [`${descriptors.grown} more descriptors are open`]
      : []),
  ];
}
