import { median } from "../kit/durations.ts";
import { textTable } from "../text-table.ts";
import type { PaintReport } from "./paint.ts";
import type { RequestLatency } from "./requests.ts";
import type { ThroughputReport } from "./throughput.ts";

const FIRST_PAINT_MS_MAX = 300;
const REQUEST_P99_MS_MAX = 50;
const RATE_SHARE_MIN = 0.95;

export function printPaint(report: PaintReport | null): void {
  if (report === null) {
    print("first paint: not measured, there is no Chromium (apt-get install chromium)");
    return;
  }
  const { firstPaintMs, numbersMs } = report;
  const slowest = Math.max(...firstPaintMs);
  print(
    `first paint: median ${median(firstPaintMs).toFixed(0)} ms, slowest of ${firstPaintMs.length} ` +
      `${slowest.toFixed(0)} ms: ${verdict(slowest <= FIRST_PAINT_MS_MAX)} (${FIRST_PAINT_MS_MAX} ms)`,
  );
  print(`numbers shown: median ${median(numbersMs).toFixed(0)} ms\n`);
}

export function printRequests(latencies: readonly RequestLatency[]): void {
  const right = { align: "right" } as const;
  const numbers = ["p50 ms", "p99 ms", "slowest ms"];
  const columns = [
    { name: "screen" },
    { name: "request" },
    ...numbers.map((name) => ({ name, ...right })),
  ];
  const rows = latencies.map(({ screen, name, p50Ms, p99Ms, maxMs }) => [
    ...[screen, name],
    ...[p50Ms, p99Ms, maxMs].map((ms) => ms.toFixed(1)),
  ]);
  print(textTable(columns, rows));
  const late = latencies.filter(({ p99Ms }) => p99Ms > REQUEST_P99_MS_MAX).map(({ name }) => name);
  print(
    `p99 of every request within ${REQUEST_P99_MS_MAX} ms: ` +
      `${late.length === 0 ? "kept" : `MISSED by ${late.join(", ")}`}\n`,
  );
}

export function printThroughput(report: ThroughputReport): void {
  const { tabs, without, withTabs, changes, requests } = report;
  const shares = withTabs.map((rate, i) => rate / (without[i] ?? Number.NaN));
  const share = median(shares);
  print(
    `task_post: ${median(without).toFixed(0)}/s without, ${median(withTabs).toFixed(0)}/s with ${tabs} open dashboards ` +
      `(they heard ${changes} changes and asked ${requests} times)`,
  );
  print(
    `share: ${percent(share)} (${shares.map(percent).join(", ")}): ` +
      `${verdict(share >= RATE_SHARE_MIN)} (${percent(RATE_SHARE_MIN)})`,
  );
}

function verdict(isKept: boolean): string {
  return isKept ? "kept" : "MISSED";
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
