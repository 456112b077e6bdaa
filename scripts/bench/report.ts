import { median } from "../kit/durations.ts";
import { numberColumns, textTable, verdict } from "../kit/text-table.ts";
import type { Slice } from "./phase.ts";

/** The measurements of one phase. */
export interface PhaseResult {
  readonly letter: string;
  readonly title: string;
  /** By round: in each round the phases were measured one right after the other. */
  readonly slices: readonly Slice[];
}

/**
 * The measurements as a Markdown table. Rates and latencies are medians over the rounds. A ratio is the median
 * of the ratios within each round: other work on the machine hits neighbours in time alike.
 */
export function reportTable(results: readonly PhaseResult[]): string {
  const base = results.find(({ letter }) => letter === "a") ?? null;
  const columns = [
    ...["tasks/s", "to (a)", "p50 ms", "p99 ms"],
    ...["server CPU µs/task", "server CPU s", "server RSS MB"],
  ];
  const rows = results.map((result) => row(result, base));
  return textTable([{ name: "" }, ...numberColumns(columns)], rows);
}

function row(result: PhaseResult, base: PhaseResult | null): string[] {
  const { letter, title, slices } = result;
  const of = (value: (slice: Slice) => number): number => median(slices.map(value));
  const cpuSeconds = slices.reduce((sum, slice) => sum + slice.cpuSeconds, 0);
  return [
    `(${letter}) ${title}`,
    thousands(of((slice) => slice.tasksPerSecond)),
    base === null ? "–" : `${(ratioTo(base, result) * 100).toFixed(0)} %`,
    of((slice) => slice.p50Ms).toFixed(1),
    of((slice) => slice.p99Ms).toFixed(1),
    of((slice) => slice.cpuMicrosPerTask).toFixed(0),
    cpuSeconds.toFixed(1),
    ((slices.at(-1)?.rssBytes ?? 0) / 1e6).toFixed(0),
  ];
}

/** The median over the rounds of a phase's rate as a share of another's. */
export function ratioTo(base: PhaseResult, { slices }: PhaseResult): number {
  const ratios = slices.map(({ tasksPerSecond }, round) => {
    return tasksPerSecond / (base.slices[round]?.tasksPerSecond ?? Number.NaN);
  });
  return median(ratios);
}

function thousands(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}

/** A bound that a release is held to. */
interface Budget {
  readonly text: string;
  /** Null when a measurement that it needs is missing. */
  readonly isKept: (results: ReadonlyMap<string, PhaseResult>) => boolean | null;
}

const BUDGETS: readonly Budget[] = [
  {
    text: "(b) at least 60 % of (a)",
    isKept: (results) => {
      const [a, b] = [results.get("a"), results.get("b")];
      return a && b ? ratioTo(a, b) >= 0.6 : null;
    },
  },
  {
    text: "p99 of (b) under 50 ms",
    isKept: (results) => {
      const b = results.get("b");
      return b ? median(b.slices.map(({ p99Ms }) => p99Ms)) < 50 : null;
    },
  },
  {
    text: "(d) at least 2,000 tasks/s",
    isKept: (results) => {
      const d = results.get("d");
      return d ? median(d.slices.map(({ tasksPerSecond }) => tasksPerSecond)) >= 2000 : null;
    },
  },
];

/** One line for each budget that these measurements can judge. */
export function budgetLines(results: readonly PhaseResult[]): string {
  const byLetter = new Map(results.map((result) => [result.letter, result]));
  const lines = BUDGETS.flatMap(({ text, isKept }) => {
    const kept = isKept(byLetter);
    return kept === null ? [] : [`- ${text}: ${verdict(kept)}`];
  });
  return lines.join("\n");
}
