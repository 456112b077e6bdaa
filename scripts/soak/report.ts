import { factTable } from "../kit/text-table.ts";
import { trendOf, type Sample, type Trend } from "./samples.ts";
import type { SoakReport } from "./soak-run.ts";

/** The course of a soak and its findings, as a Markdown table. */
export function soakTable(report: SoakReport): string {
  const { leases, lives } = report;
  return factTable([
    ["minutes", (report.seconds / 60).toFixed(1)],
    ["kill -9 of the daemon, all in the first half", report.kills],
    ["kill -9 of a worker process", report.workerKills],
    ["deaths of the service behind the http type", report.serviceDeaths],
    ["tasks acknowledged, each over in the end", report.acknowledged],
    ["of these completed", report.completed],
    ["failed, each for a cause that was seen", report.failed],
    ["cancelled, each by its client", report.cancelled],
    ["started more than once", report.rerun],
    ["leases handed out", leases.claims],
    ["answers ok to a lease", leases.ok],
    ["answers lost", leases.lost],
    ["answers cancelled", leases.cancelled],
    ["completions answered ok, each kept", leases.completed],
    ["requests that were none, each refused", leases.refused],
    ["requests to the service", report.serviceRequests],
    ["webhooks received, every signature right", report.webhooks],
    ["of these twice, each explained by a kill", report.duplicates],
    ["tasks run under two live leases", count(report, / while .* was live$/)],
    ["violations of any kind", report.faults.length],
    ...lifeRows("lives that a kill ended", lives.slice(0, -1)),
    ...lifeRows("the last life", lives.slice(-1)),
  ]);
}

function count({ faults }: SoakReport, pattern: RegExp): number {
  return faults.filter((fault) => pattern.test(fault)).length;
}

/** Of several lives the extremes, and the slope of the longest. */
function lifeRows(
  name: string,
  lives: readonly (readonly Sample[])[],
): readonly (readonly [string, string])[] {
  const longest = lives.toSorted((a, b) => b.length - a.length)[0] ?? [];
  const samples = lives.flat();
  if (samples.length === 0) return [];
  const minutes = ((longest.at(-1)?.atMs ?? 0) / 60_000).toFixed(1);
  const row = (what: string, value: (sample: Sample) => number) => {
    const all = trendOf(samples, value);
    const trend = trendOf(longest, value);
    return [`${name}: ${what}, min–max; slope over ${minutes} min`, rangeText(all, trend)] as const;
  };
  return [
    row("RSS MB", ({ rssBytes }) => rssBytes / 1e6),
    row("descriptors", ({ descriptors }) => descriptors),
  ];
}

function rangeText({ min, max }: Trend, { perMinute, grown }: Trend): string {
  const range = `${min.toFixed(0)}–${max.toFixed(0)}`;
  return `${range}; ${perMinute.toFixed(2)}/min, last third ${signed(grown)}`;
}

function signed(value: number): string {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)}`;
}
