import { factTable, median } from "../kit/measure.ts";
import type { Life, SoakReport } from "./crash.ts";

type Fact = readonly [what: string, figure: string | number];

/** The course of a soak and its findings, as a Markdown table. */
export function soakTable(report: SoakReport): string {
  const { ledger, leases, lives, unrecordedMs, faults } = report;
  const restartMs = lives.slice(1).map(({ readyMs }) => readyMs);
  const refused = ledger.arrivals.filter(({ status }) => status === 500).length;
  const twice = faults.filter((fault) => / while .* was live$/.test(fault));
  const right = faults.length === 0 ? "right" : "see the violations";
  return factTable([
    ["minutes", (report.seconds / 60).toFixed(1)],
    ["kill -9 of the daemon, under load and while it starts", report.kills],
    ["kill -9 of a worker process", report.workerKills],
    ["deaths of the service behind the http type", report.serviceDeaths],
    ["tasks acknowledged, each over in the end", ledger.tasks.size],
    ["tasks on disk whose acknowledgement the crash cut off", report.unacknowledged],
    ["of all, completed", report.completed],
    ["failed, each for a cause that was seen", report.failed],
    ["cancelled, each by its client", report.cancelled],
    ["tasks whose cancelling was acknowledged, cancelled and unsent", ledger.cancelled.size],
    ["tasks started more than once", report.rerun],
    ["leases handed out", leases.claims],
    ["answers ok to a lease", leases.ok],
    ["answers lost", leases.lost],
    ["answers cancelled", leases.cancelled],
    ["completions answered ok, each kept", ledger.finished.size],
    ["requests that were none, each refused", leases.refused],
    ["requests to the service", report.serviceRequests],
    ["webhooks received, every signature right", ledger.arrivals.length],
    ["of these, answered 500 and sent again", refused],
    ["acknowledged results without a delivered postback and pingback", ledger.missing],
    ["duplicates: accepted by the receiver before, each explained by a kill", report.duplicates],
    ["accepted attempts in flight at a kill, recorded as interrupted", unrecordedMs.length],
    [
      "of those, the longest from arrival to the end of the process, ms",
      Math.max(0, ...unrecordedMs),
    ],
    ["attempts interrupted by a crash and made again, no retry used", report.interrupted],
    ["posts with an Idempotency-Key, each with its tasks once", sum(report, "posts")],
    ["of these, sent again because a crash cut off the answer", sum(report, "repeated")],
    ["of those, on disk before the crash and answered as kept", sum(report, "replayed")],
    ["tasks run under two live leases", twice.length],
    ["counts by state, integrity_check and foreign_key_check, after every start", right],
    ["violations of any kind", faults.length],
    ["restart to ready, p50 ms", median(restartMs).toFixed(0)],
    ["restart to ready, slowest ms", Math.max(...restartMs).toFixed(0)],
    ...lifeRows("lives that a kill ended", lives.slice(0, -1)),
    ...lifeRows("the last life", lives.slice(-1)),
  ]);
}

function sum({ clients }: SoakReport, what: "posts" | "repeated" | "replayed"): number {
  return clients.reduce((total, client) => total + client[what], 0);
}

/** Of several lives the extremes, and the growth of the longest. */
function lifeRows(name: string, lives: readonly Life[]): readonly Fact[] {
  const all = lives.map(({ samples }) => samples);
  const longest = all.toSorted((a, b) => b.length - a.length)[0] ?? [];
  if (longest.length === 0) return [];
  const minutes = ((longest.at(-1)?.atMs ?? 0) / 60_000).toFixed(1);
  const row = (what: string, value: (sample: Sample) => number): Fact => {
    const { min, max } = trendOf(all.flat(), value);
    const { grown } = trendOf(longest, value);
    const range = `${min.toFixed(0)}–${max.toFixed(0)}; ${grown.toFixed(1)}`;
    return [`${name}: ${what}, min–max; growth in the last third of ${minutes} min`, range];
  };
  return [
    row("RSS MB", ({ rssBytes }) => rssBytes / 1e6),
    row("descriptors", ({ descriptors }) => descriptors),
  ];
}

/** The resources of a daemon at a moment of its life. */
export interface Sample {
  /** Milliseconds since its start. */
  readonly atMs: number;
  readonly rssBytes: number;
  readonly descriptors: number;
}

/** How something went over a stretch of time. */
export interface Trend {
  readonly min: number;
  readonly max: number;
  /** The median of the last third minus the median of the middle third. */
  readonly grown: number;
}

// Shorter stretches end before caches are full and code is compiled, so they are not judged.
const JUDGED_MS_MIN = 5 * 60_000;
// The collector's own ups and downs between two medians; a leak of 100 bytes a task is more in half an hour.
const GROWN_BYTES_MAX = 30e6;
const GROWN_DESCRIPTORS_MAX = 16;

export function trendOf(samples: readonly Sample[], value: (sample: Sample) => number): Trend {
  const values = samples.map(value);
  const third = Math.floor(values.length / 3);
  const last = values.slice(values.length - third);
  const middle = values.slice(third, values.length - third);
  return {
    min: Math.min(...values),
    max: Math.max(...values),
    grown: third > 0 ? median(last) - median(middle) : 0,
  };
}

/** Figures that grow and must not, over a life that is long enough to show it. */
export function judgeFlat(samples: readonly Sample[]): readonly string[] {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined) return [];
  if (last.atMs - first.atMs < JUDGED_MS_MIN) return [];
  const rss = trendOf(samples, ({ rssBytes }) => rssBytes);
  const descriptors = trendOf(samples, (sample) => sample.descriptors);
  return [
    ...(rss.grown > GROWN_BYTES_MAX ? [`memory grew by ${(rss.grown / 1e6).toFixed(0)} MB`] : []),
    ...(descriptors.grown > GROWN_DESCRIPTORS_MAX
      ? [`${descriptors.grown} more descriptors are open`]
      : []),
  ];
}
