import type { Engine } from "../kit/daemon-file.ts";
import { sumOf } from "../kit/durations.ts";
import { figureOf, figureTable, type Figure, type FigureRow } from "../kit/figures.ts";
import { verdict } from "../kit/text-table.ts";
import type { PhaseResult, Slice } from "./phases.ts";

type BenchRun = { readonly run: Slice; readonly first: Slice | undefined };
type BenchFigure = Figure<BenchRun>;

const RATE: BenchFigure = { name: "tasks/s", value: ({ run }) => run.tasksPerSecond };
const RATIO: BenchFigure = {
  name: "to (a)",
  unit: " %",
  value: ({ run, first }) => (100 * run.tasksPerSecond) / (first?.tasksPerSecond ?? Number.NaN),
};
const P99: BenchFigure = { name: "p99 ms", digits: 1, value: ({ run }) => run.p99Ms };
const RSS: BenchFigure = {
  name: "server RSS MB",
  value: ({ run }) => run.rssBytes / 1e6,
  of: (all) => all.at(-1) ?? Number.NaN,
};

const FIGURES: readonly BenchFigure[] = [
  RATE,
  RATIO,
  { name: "p50 ms", digits: 1, value: ({ run }) => run.p50Ms },
  P99,
  { name: "p99.9 ms", digits: 1, value: ({ run }) => run.p999Ms },
  { name: "server CPU µs/task", value: ({ run }) => run.cpuMicrosPerTask },
  { name: "server CPU s", digits: 1, value: ({ run }) => run.cpuSeconds, of: sumOf },
  RSS,
];

interface Budget {
  readonly text: string;
  readonly letter: string;
  readonly figure: BenchFigure;
  readonly min: number;
  readonly max: number;
}

/** The bounds that a release is held to. */
const BUDGETS: Readonly<Record<Engine, readonly Budget[]>> = {
  file: [
    { text: "(b) at least 60 % of (a)", letter: "b", figure: RATIO, min: 60, max: Infinity },
    { text: "p99 of (b) under 25 ms", letter: "b", figure: P99, min: 0, max: 25 },
    { text: "(c) at least 60,000 tasks/s", letter: "c", figure: RATE, min: 60_000, max: Infinity },
    { text: "(b) under 220 MB", letter: "b", figure: RSS, min: 0, max: 220 },
    { text: "(c) under 220 MB", letter: "c", figure: RSS, min: 0, max: 220 },
    { text: "(d) under 220 MB", letter: "d", figure: RSS, min: 0, max: 220 },
    { text: "(d) at least 2,000 tasks/s", letter: "d", figure: RATE, min: 2000, max: Infinity },
  ],
  server: [
    { text: "(b) at least 8,000 tasks/s", letter: "b", figure: RATE, min: 8000, max: Infinity },
    { text: "p99 of (b) under 40 ms", letter: "b", figure: P99, min: 0, max: 40 },
    { text: "(c) at least 20,000 tasks/s", letter: "c", figure: RATE, min: 20_000, max: Infinity },
    { text: "(d) at least 1,500 tasks/s", letter: "d", figure: RATE, min: 1500, max: Infinity },
  ],
};

/**
 * The measurements as a Markdown table. Rates and latencies are medians over the rounds. A ratio is the median
 * of the ratios within each round.
 */
export function reportTable(results: readonly PhaseResult[]): string {
  return figureTable(FIGURES, rowsOf(results));
}

/** One line for each budget that these measurements can judge. */
export function budgetLines(results: readonly PhaseResult[], engine: Engine): string {
  const rows = rowsOf(results);
  const lines = BUDGETS[engine].flatMap(({ text, letter, figure, min, max }) => {
    const runs = rows.find((row) => row.letter === letter)?.runs ?? [];
    const value = figureOf(figure, runs);
    return Number.isNaN(value) ? [] : [`- ${text}: ${verdict(value >= min && value < max)}`];
  });
  return lines.join("\n");
}

function rowsOf(
  results: readonly PhaseResult[],
): readonly (FigureRow<BenchRun> & { readonly letter: string })[] {
  const base = results.find(({ letter }) => letter === "a");
  return results.map(({ letter, title, slices }) => ({
    letter,
    what: [`(${letter}) ${title}`],
    runs: slices.map((run, round) => ({ run, first: base?.slices[round] })),
  }));
}
