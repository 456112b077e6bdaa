import { median } from "../kit/durations.ts";
import { numberColumns, textTable, verdict } from "../kit/text-table.ts";
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
  const numbers = numberColumns(["p50 ms", "p99 ms", "slowest ms"]);
  const columns = [{ name: "screen" }, { name: "request" }, ...numbers];
  const rows = latencies.map(({ screen, name, p50Ms, p99Ms, maxMs }) => [
    ...[screen, name],
    ...[p50Ms, p99Ms, maxMs].map((ms) => ms.toFixed(1)),
  ]);
  const late = latencies.filter(({ p99Ms }) => p99Ms > REQUEST_P99_MS_MAX).map(({ name }) => name);
  const kept = late.length === 0 ? "kept" : `MISSED by ${late.join(", ")}`;
  return `${textTable(columns, rows)}\np99 of every request within ${REQUEST_P99_MS_MAX} ms: ${kept}\n`;
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

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}
