/** Durations in milliseconds, 0 without any. */
export interface Spread {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
}

export function spreadOf(durations: readonly number[]): Spread {
  const sorted = durations.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
  return {
    count: sorted.length,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    p999Ms: at(0.999),
    maxMs: at(1),
  };
}

/** The time in epoch milliseconds, with fractions. */
export function epochMs(): number {
  return performance.timeOrigin + performance.now();
}

export function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** The middle value; of an even number of values the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  const lower = sorted[Math.ceil(middle) - 1] ?? upper;
  return (lower + upper) / 2;
}

/** One of several things that are compared, with its result of each round. */
export interface Measured<Leg, Result> {
  readonly leg: Leg;
  readonly results: readonly Result[];
}

/**
 * Measures several things in turn, round by round: other work on the machine affects neighbours in time alike. Rounds
 * before the first are not counted, because code is compiled while they last.
 */
export async function inTurn<Leg, Result>(
  legs: readonly Leg[],
  options: {
    readonly rounds: number;
    readonly uncounted: number;
    readonly measure: (leg: Leg) => Promise<Result>;
    /** Called with every counted result. */
    readonly onResult?: (leg: Leg, result: Result) => void;
  },
): Promise<readonly Measured<Leg, Result>[]> {
  const measured = legs.map((leg) => ({ leg, results: new Array<Result>() }));
  for (let round = -options.uncounted; round < options.rounds; round++) {
    for (const { leg, results } of measured) {
      const result = await options.measure(leg);
      if (round < 0) continue;
      results.push(result);
      options.onResult?.(leg, result);
    }
  }
  return measured;
}

/** A measurement next to the measurement of the first leg in the same round. */
export interface Beside<Run> {
  readonly run: Run;
  readonly first: Run;
}

export function besideFirst<Run>(
  runs: readonly Run[],
  first: readonly Run[] = [],
): readonly Beside<Run>[] {
  return runs.flatMap((run, round) => {
    const base = first[round];
    return base === undefined ? [] : [{ run, first: base }];
  });
}

/** A column of a table of measurements. */
export interface Figure<Run> {
  readonly name: string;
  readonly value: (run: Run) => number;
  /** Behind the decimal point; none unless given. */
  readonly digits?: number;
  /** Combines the values of all rounds; their median unless given. */
  readonly of?: (values: readonly number[]) => number;
  readonly unit?: string;
}

/** A row of a table of measurements. */
export interface FigureRow<Run> {
  /** The cells before the figures. */
  readonly what: readonly string[];
  readonly runs: readonly Run[];
  /** A cell behind the figures. */
  readonly remark?: string;
}

/** Measurements as a Markdown table; a figure that is not a number is a dash. */
export function figureTable<Run>(
  figures: readonly Figure<Run>[],
  rows: readonly FigureRow<Run>[],
  { what = [""], remark }: { readonly what?: readonly string[]; readonly remark?: string } = {},
): string {
  const names = [
    ...what,
    ...figures.map(({ name }) => name),
    ...(remark === undefined ? [] : [remark]),
  ];
  const cells = rows.map((row) => [
    ...row.what,
    ...figures.map((figure) => {
      const value = figureOf(figure, row.runs);
      return Number.isNaN(value) ? "–" : `${numberText(value, figure.digits)}${figure.unit ?? ""}`;
    }),
    ...(row.remark === undefined ? [] : [row.remark]),
  ]);
  return markdownTable(names, cells, what.length);
}

export function figureOf<Run>(
  { value, of = median }: Pick<Figure<Run>, "value" | "of">,
  runs: readonly Run[],
): number {
  return of(runs.map(value));
}

export const SPREAD_FIGURES: readonly Figure<Spread>[] = [
  { name: "p50 ms", digits: 1, value: ({ p50Ms }) => p50Ms },
  { name: "p99 ms", digits: 1, value: ({ p99Ms }) => p99Ms },
  { name: "slowest ms", digits: 1, value: ({ maxMs }) => maxMs },
];

/** A Markdown table with padded columns; those after the first `left` are aligned to the right. */
export function markdownTable(
  names: readonly string[],
  rows: readonly (readonly string[])[],
  left = 1,
): string {
  const widths = names.map((name, i) => {
    return Math.max(3, name.length, ...rows.map((row) => row[i]?.length ?? 0));
  });
  const line = (cells: readonly string[]): string => {
    const padded = widths.map((width, i) => {
      const cell = cells[i] ?? "";
      return i < left ? cell.padEnd(width) : cell.padStart(width);
    });
    return `| ${padded.join(" | ")} |`;
  };
  const rule = widths.map((width, i) => `${"-".repeat(width - 1)}${i < left ? "-" : ":"}`);
  return [line(names), `| ${rule.join(" | ")} |`, ...rows.map(line)].join("\n");
}

/** One figure per line, behind its description. */
export function factTable(
  facts: readonly (readonly [string, string | number])[],
  name = "",
): string {
  return markdownTable(
    [name, ""],
    facts.map((fact) => fact.map(String)),
  );
}

/** With thousands separators. */
export function numberText(value: number, digits = 0): string {
  const fraction = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString("en-US", fraction);
}

export function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(0);
}

/** A share of one, in percent. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}

export function verdict(isKept: boolean): "kept" | "MISSED" {
  return isKept ? "kept" : "MISSED";
}
