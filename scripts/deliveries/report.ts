import { besideFirst, figureOf, figureTable, type Beside, type Figure } from "../kit/figures.ts";
import { verdict } from "../kit/text-table.ts";
import type { DeliveryRun } from "./delivery-run.ts";
import { p99Ratio, type LegResult, type Scenario } from "./scenario.ts";

type DeliveryFigure = Figure<Beside<DeliveryRun>>;

const FRESH: readonly DeliveryFigure[] = [
  { name: "arrived/s", value: ({ run }) => run.arrivedPerSecond },
  { name: "p50 ms", digits: 1, value: ({ run }) => run.arrivals.fromCompletion.p50Ms },
  { name: "p99 ms", digits: 1, value: ({ run }) => run.arrivals.fromCompletion.p99Ms },
  { name: "p99.9 ms", digits: 1, value: ({ run }) => run.arrivals.fromCompletion.p999Ms },
  { name: "slowest ms", value: ({ run }) => run.arrivals.fromCompletion.maxMs },
  {
    name: "p99 to first",
    digits: 2,
    value: p99Ratio,
  },
  { name: "post → arrival p99 ms", digits: 1, value: ({ run }) => run.arrivals.fromPost.p99Ms },
  { name: "post → answer p99 ms", digits: 1, value: ({ run }) => run.posts.p99Ms },
];

const MACHINE: readonly DeliveryFigure[] = [
  { name: "CPU % before", digits: 1, value: ({ run }) => run.cpuPercent.before },
  { name: "during", value: ({ run }) => run.cpuPercent.during },
  { name: "after", digits: 1, value: ({ run }) => run.cpuPercent.after },
  { name: "RSS MB", value: ({ run }) => run.rssBytes / 1e6 },
];

const RETRIES: readonly DeliveryFigure[] = [
  { name: "retries", value: ({ run }) => run.lateness.count },
  { name: "due → begun p50 ms", value: ({ run }) => run.lateness.p50Ms },
  { name: "p99 ms", value: ({ run }) => run.lateness.p99Ms },
  { name: "slowest ms", value: ({ run }) => run.lateness.maxMs },
  { name: "due → arrival p99 ms", value: ({ run }) => run.arrivals.retries.p99Ms },
];

/**
 * What was measured, as Markdown tables: of the fresh deliveries, from their tasks' completion to the first byte at the
 * receiver; of retries; of the daemon. Each number is the median over the rounds; a ratio is the median of the ratios
 * within each round.
 */
export function scenarioReport(scenario: Scenario, results: readonly LegResult[]): string {
  const has =
    (kind: (run: DeliveryRun) => number) =>
    ({ results: runs }: LegResult) =>
      runs.some((run) => kind(run) > 0);
  const fresh = results.filter(has(({ arrivals }) => arrivals.fromCompletion.count));
  const late = results.filter(has(({ lateness }) => lateness.count));
  const first = results[0]?.results ?? [];
  const tables = [
    ...(fresh.length > 0 ? [table(FRESH, fresh, first)] : []),
    ...(late.length > 0 ? [table(RETRIES, late, first)] : []),
    table(MACHINE, results, first),
  ];
  return [`### ${scenario.title}`, ...tables, budgetLines(scenario, results)].join("\n\n");
}

function table(
  figures: readonly DeliveryFigure[],
  results: readonly LegResult[],
  first: readonly DeliveryRun[],
): string {
  const rows = results.map(({ leg, results: runs }) => ({
    what: [leg.name],
    runs: besideFirst(runs, first),
  }));
  return figureTable(figures, rows);
}

/** One line for each bound. */
export function budgetLines({ budgets }: Scenario, results: readonly LegResult[]): string {
  const first = results[0]?.results ?? [];
  return budgets
    .map(({ text, leg, max, value }) => {
      const measured = figureOf({ value }, besideFirst(results[leg]?.results ?? [], first));
      return `- ${text}: ${measured.toFixed(2)}, at most ${max}: ${verdict(measured <= max)}`;
    })
    .join("\n");
}
