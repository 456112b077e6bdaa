import { median } from "../kit/durations.ts";
import { besideFirst, figureOf, figureTable, type Figure } from "../kit/figures.ts";
import { verdict } from "../kit/text-table.ts";
import type { Slice } from "./phase.ts";

/** The measurements of one phase. */
export interface PhaseResult {
  readonly letter: string;
  readonly title: string;
  /** By round: in each round the phases were measured one right after the other. */
  readonly slices: readonly Slice[];
}

type BenchFigure = Figure<{ readonly run: Slice; readonly first: Slice | null }>;

const RATIO: BenchFigure = {
  name: "to (a)",
  unit: " %",
  value: ({ run, first }) => (100 * run.tasksPerSecond) / (first?.tasksPerSecond ?? Number.NaN),
};

const FIGURES: readonly BenchFigure[] = [
  { name: "tasks/s", value: ({ run }) => run.tasksPerSecond },
  RATIO,
  { name: "p50 ms", digits: 1, value: ({ run }) => run.p50Ms },
  { name: "p99 ms", digits: 1, value: ({ run }) => run.p99Ms },
  { name: "server CPU µs/task", value: ({ run }) => run.cpuMicrosPerTask },
  { name: "server CPU s", digits: 1, value: ({ run }) => run.cpuSeconds, of: sumOf },
  { name: "server RSS MB", value: ({ run }) => run.rssBytes / 1e6, of: (all) => all.at(-1) ?? 0 },
];

/**
 * The measurements as a Markdown table. Rates and latencies are medians over the rounds. A ratio is the median
 * of the ratios within each round.
 */
export function reportTable(results: readonly PhaseResult[]): string {
  const base = results.find(({ letter }) => letter === "a");
  const rows = results.map(({ letter, title, slices }) => ({
    what: [`(${letter}) ${title}`],
    runs: slices.map((run, round) => ({ run, first: base?.slices[round] ?? null })),
  }));
  return figureTable(FIGURES, rows);
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** The median over the rounds of a phase's rate as a share of another's. */
function ratioTo(base: PhaseResult, { slices }: PhaseResult): number {
  return figureOf(RATIO, besideFirst(slices, base.slices)) / 100;
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
