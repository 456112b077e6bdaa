import { median } from "../kit/durations.ts";
import { numberColumns, textTable, verdict } from "../kit/text-table.ts";
import type { DeliveryRun } from "./delivery-run.ts";
import type { LegResult } from "./scenario-run.ts";
import type { Budget, Scenario } from "./scenario.ts";

type Value = (run: DeliveryRun, first: DeliveryRun) => number;

interface NumberColumn {
  readonly name: string;
  readonly value: Value;
  readonly digits: number;
}

const FRESH: readonly NumberColumn[] = [
  { name: "arrived/s", digits: 0, value: ({ arrivedPerSecond }) => arrivedPerSecond },
  { name: "p50 ms", digits: 1, value: ({ arrivals }) => arrivals.fromCompletion.p50Ms },
  { name: "p99 ms", digits: 1, value: ({ arrivals }) => arrivals.fromCompletion.p99Ms },
  { name: "slowest ms", digits: 0, value: ({ arrivals }) => arrivals.fromCompletion.maxMs },
  {
    name: "p99 to first",
    digits: 2,
    value: ({ arrivals }, first) =>
      arrivals.fromCompletion.p99Ms / first.arrivals.fromCompletion.p99Ms,
  },
  { name: "post → arrival p99 ms", digits: 1, value: ({ arrivals }) => arrivals.fromPost.p99Ms },
  { name: "post → answer p99 ms", digits: 1, value: ({ posts }) => posts.p99Ms },
];

const MACHINE: readonly NumberColumn[] = [
  { name: "CPU % before", digits: 1, value: ({ cpuPercent }) => cpuPercent.before },
  { name: "during", digits: 0, value: ({ cpuPercent }) => cpuPercent.during },
  { name: "after", digits: 1, value: ({ cpuPercent }) => cpuPercent.after },
  { name: "RSS MB", digits: 0, value: ({ rssBytes }) => rssBytes / 1e6 },
];

const RETRIES: readonly NumberColumn[] = [
  { name: "retries", digits: 0, value: ({ lateness }) => lateness.count },
  { name: "due → begun p50 ms", digits: 0, value: ({ lateness }) => lateness.p50Ms },
  { name: "p99 ms", digits: 0, value: ({ lateness }) => lateness.p99Ms },
  { name: "slowest ms", digits: 0, value: ({ lateness }) => lateness.maxMs },
  { name: "due → arrival p99 ms", digits: 0, value: ({ arrivals }) => arrivals.retries.p99Ms },
];

/**
 * What was measured, as Markdown tables: of the fresh deliveries, from their tasks' completion to the first byte at the
 * receiver; of retries; of the daemon. Each number is the median over the rounds; a ratio is the median of the ratios
 * within each round.
 */
export function scenarioReport(scenario: Scenario, results: readonly LegResult[]): string {
  const has = (kind: (run: DeliveryRun) => number) => (result: LegResult) =>
    result.runs.some((run) => kind(run) > 0);
  const fresh = results.filter(has(({ arrivals }) => arrivals.fromCompletion.count));
  const late = results.filter(has(({ lateness }) => lateness.count));
  const first = results[0]?.runs ?? [];
  const tables = [
    ...(fresh.length > 0 ? [table(FRESH, fresh, first)] : []),
    ...(late.length > 0 ? [table(RETRIES, late, first)] : []),
    table(MACHINE, results, first),
  ];
  return [`### ${scenario.title}`, ...tables, budgetLines(scenario, results)].join("\n\n");
}

function table(
  columns: readonly NumberColumn[],
  results: readonly LegResult[],
  first: readonly DeliveryRun[],
): string {
  const rows = results.map(({ leg, runs }) => [
    leg.name,
    ...columns.map(({ value, digits }) => numberText(medianOf(value, { runs, first }), digits)),
  ]);
  return textTable([{ name: "" }, ...numberColumns(columns.map(({ name }) => name))], rows);
}

/** One line for each bound. */
export function budgetLines({ budgets }: Scenario, results: readonly LegResult[]): string {
  const first = results[0]?.runs ?? [];
  return budgets
    .map(({ text, leg, max, value }: Budget) => {
      const measured = medianOf(value, { runs: results[leg]?.runs ?? [], first });
      return `- ${text}: ${measured.toFixed(2)}, at most ${max}: ${verdict(measured <= max)}`;
    })
    .join("\n");
}

function numberText(value: number, digits: number): string {
  return Number.isNaN(value) ? "–" : value.toFixed(digits);
}

function medianOf(
  value: Value,
  { runs, first }: Readonly<Record<"runs" | "first", readonly DeliveryRun[]>>,
): number {
  return median(
    runs.flatMap((run, round) => {
      const base = first[round];
      return base === undefined ? [] : [value(run, base)];
    }),
  );
}
