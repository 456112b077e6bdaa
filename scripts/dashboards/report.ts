import { median } from "../kit/durations.ts";
import { SPREAD_FIGURES, figureTable, p99Line, percent } from "../kit/figures.ts";
import { verdict } from "../kit/text-table.ts";
import type { PaintReport } from "./paint.ts";
import type { RequestLatency } from "./requests.ts";
import type { ThroughputReport } from "./throughput.ts";

const FIRST_PAINT_MS_MAX = 300;
const REQUEST_P99_MS_MAX = 50;
const RATE_SHARE_MIN = 0.95;

export function paintText(report: PaintReport | null): string {
  if (report === null)
    return "first paint: not measured, there is no Chromium (apt-get install chromium)\n";
  const { firstPaintMs, numbersMs } = report;
  const slowest = Math.max(...firstPaintMs);
  return (
    `first paint: median ${median(firstPaintMs).toFixed(0)} ms, slowest of ${firstPaintMs.length} ` +
    `${slowest.toFixed(0)} ms: ${verdict(slowest <= FIRST_PAINT_MS_MAX)} (${FIRST_PAINT_MS_MAX} ms)\n` +
    `numbers shown: median ${median(numbersMs).toFixed(0)} ms\n`
  );
}

export function requestsText(latencies: readonly RequestLatency[]): string {
  const rows = latencies.map((each) => ({ what: [each.screen, each.name], runs: [each] }));
  const table = figureTable(SPREAD_FIGURES, rows, { what: ["screen", "request"] });
  return `${table}\n${p99Line("request", latencies, REQUEST_P99_MS_MAX)}\n`;
}

export function throughputText(report: ThroughputReport): string {
  const { tabs, without, withTabs, changes, requests } = report;
  const shares = withTabs.map((rate, i) => rate / (without[i] ?? Number.NaN));
  const share = median(shares);
  return (
    `task_post: ${median(without).toFixed(0)}/s without, ${median(withTabs).toFixed(0)}/s with ${tabs} open dashboards ` +
    `(they heard ${changes} changes and asked ${requests} times)\n` +
    `share: ${percent(share)} (${shares.map(percent).join(", ")}): ` +
    `${verdict(share >= RATE_SHARE_MIN)} (${percent(RATE_SHARE_MIN)})`
  );
}
