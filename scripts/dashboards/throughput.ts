import { median } from "../kit/durations.ts";
import { percent } from "../kit/figures.ts";
import { inTurn } from "../kit/in-turn.ts";
import { LoadGenerator } from "../kit/load-generator.ts";
import { taskPostRequest } from "../kit/request.ts";
import { signIn, type DashboardPlace } from "../kit/sign-in.ts";
import { verdict } from "../kit/text-table.ts";
import { OpenTabs } from "./tabs.ts";

const CONNECTIONS = 64;
const SLICE_MS = 3000;
const WARM_UP_MS = 500;
const SHARE_MIN = 0.95;

/** Measures the rate of task_post without and with open dashboards, in turn; a first pair is not counted. */
export async function measureThroughput(
  place: DashboardPlace,
  { rounds, tabs }: { readonly rounds: number; readonly tabs: number },
): Promise<string> {
  const { port } = place.daemon;
  const cookie = await signIn(place);
  const key = place.file.account.key;
  const request = taskPostRequest({ key, tasks: 1, type: "parked" });
  const load = { port, connections: CONNECTIONS, request, warmUpMs: WARM_UP_MS };
  using generator = new LoadGenerator();
  const rateOf = async (): Promise<number> => {
    const until = { measuredMs: SLICE_MS };
    const { answers, seconds } = await generator.ask("run", { ...load, until });
    return answers / seconds;
  };
  const measure = async (count: number) => {
    if (count === 0) return { rate: await rateOf(), changes: 0, requests: 0 };
    using open = new OpenTabs();
    await open.ask("open", { port, cookie, count });
    return { rate: await rateOf(), ...(await open.ask("report")) };
  };
  const [without, withTabs] = await inTurn([0, tabs], { rounds, uncounted: 1, measure });
  const [before = [], then = []] = [without?.results, withTabs?.results];
  const rate = (runs: typeof then): string => median(runs.map((run) => run.rate)).toFixed(0);
  const sum = (of: "changes" | "requests"): number => then.reduce((all, run) => all + run[of], 0);
  const shares = then.map((run, i) => run.rate / (before[i]?.rate ?? Number.NaN));
  const share = median(shares);
  return (
    `task_post: ${rate(before)}/s without, ${rate(then)}/s with ${tabs} open dashboards ` +
    `(they heard ${sum("changes")} changes and asked ${sum("requests")} times)\n` +
    `share: ${percent(share)} (${shares.map(percent).join(", ")}): ` +
    `${verdict(share >= SHARE_MIN)} (${percent(SHARE_MIN)})`
  );
}
