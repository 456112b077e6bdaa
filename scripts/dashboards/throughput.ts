import { LoadGenerator } from "../kit/load-generator.ts";
import { taskPostRequest } from "../kit/request.ts";
import { signIn, type DashboardPlace } from "../kit/sign-in.ts";
import { OpenTabs } from "./tabs.ts";

/** Rates of task_post in tasks a second, in the order they were measured. */
export interface ThroughputReport {
  readonly tabs: number;
  readonly without: readonly number[];
  readonly withTabs: readonly number[];
  /** The changes that the tabs heard of while they were open, and their requests. */
  readonly changes: number;
  readonly requests: number;
}

const CONNECTIONS = 64;
const SLICE_MS = 3000;
const WARM_UP_MS = 500;

/** Measures the rate without and with open dashboards, in turn; a first pair is not counted. */
export async function measureThroughput(
  place: DashboardPlace,
  { rounds, tabs }: { readonly rounds: number; readonly tabs: number },
): Promise<ThroughputReport> {
  const { file, daemon } = place;
  const cookie = await signIn(place);
  const request = taskPostRequest({ key: file.account.key, tasks: 1, type: "parked" });
  using generator = new LoadGenerator();
  const rate = async (): Promise<number> => {
    const { answers, seconds } = await generator.ask("run", {
      port: daemon.port,
      connections: CONNECTIONS,
      request,
      warmUpMs: WARM_UP_MS,
      until: { measuredMs: SLICE_MS },
    });
    return answers / seconds;
  };
  const report = {
    tabs,
    changes: 0,
    requests: 0,
    without: [] as number[],
    withTabs: [] as number[],
  };
  for (let round = 0; round <= rounds; round++) {
    const without = await rate();
    using open = new OpenTabs();
    await open.ask("open", { port: daemon.port, cookie, count: tabs });
    const withTabs = await rate();
    const { changes, requests } = await open.ask("report");
    if (round === 0) continue;
    report.without.push(without);
    report.withTabs.push(withTabs);
    report.changes += changes;
    report.requests += requests;
  }
  return report;
}
