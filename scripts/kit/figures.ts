import { median, type Spread } from "./durations.ts";
import { numberColumns, textTable, verdict } from "./text-table.ts";

/** A figure of measurements, as a column of a table. */
export interface Figure<Run> {
  readonly name: string;
  readonly value: (run: Run) => number;
  /** Behind the decimal point; none unless given. */
  readonly digits?: number;
  /** What becomes of the values of all rounds: their median unless given. */
  readonly of?: (values: readonly number[]) => number;
  readonly unit?: string;
}

/** Something that was measured, and what came of it in each round. */
export interface FigureRow<Run> {
  /** What it is: the cells before the figures. */
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
  const columns = [
    ...what.map((name) => ({ name })),
    ...numberColumns(figures.map(({ name }) => name)),
    ...(remark === undefined ? [] : [{ name: remark }]),
  ];
  const cells = rows.map((row) => [
    ...row.what,
    ...figures.map((figure) => figureText(figure, row.runs)),
    ...(row.remark === undefined ? [] : [row.remark]),
  ]);
  return textTable(columns, cells);
}

/** The figure of all rounds. */
export function figureOf<Run>(
  { value, of = median }: Pick<Figure<Run>, "value" | "of">,
  runs: readonly Run[],
): number {
  return of(runs.map(value));
}

function figureText<Run>(figure: Figure<Run>, runs: readonly Run[]): string {
  const value = figureOf(figure, runs);
  return Number.isNaN(value) ? "–" : `${numberText(value, figure.digits)}${figure.unit ?? ""}`;
}

/** As people write it: with commas, and so many digits behind the point. */
export function numberText(value: number, digits = 0): string {
  const fraction = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString("en-US", fraction);
}

/** Bytes, in MB. */
export function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(0);
}

/** A share of one, in percent. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}

/**
 * A measurement beside that of the first leg in the same round: other work on the machine hits neighbours in time
 * alike.
 */
export interface Beside<Run> {
  readonly run: Run;
  readonly first: Run;
}

/** Each round of a leg beside the same round of the first. */
export function besideFirst<Run>(
  runs: readonly Run[],
  first: readonly Run[],
): readonly Beside<Run>[] {
  return runs.flatMap((run, round) => {
    const base = first[round];
    return base === undefined ? [] : [{ run, first: base }];
  });
}

/** How long something took. */
export const SPREAD_FIGURES: readonly Figure<Spread>[] = [
  { name: "p50 ms", digits: 1, value: ({ p50Ms }) => p50Ms },
  { name: "p99 ms", digits: 1, value: ({ p99Ms }) => p99Ms },
  { name: "slowest ms", digits: 1, value: ({ maxMs }) => maxMs },
];

/** Whether the p99 of each of these kept a bound. */
export function p99Line(
  what: string,
  spreads: readonly (Spread & { readonly name: string })[],
  msMax: number,
): string {
  const late = spreads.filter(({ p99Ms }) => p99Ms > msMax).map(({ name }) => name);
  const by = late.length === 0 ? "" : ` by ${late.join(", ")}`;
  return `p99 of every ${what} within ${msMax} ms: ${verdict(late.length === 0)}${by}`;
}
