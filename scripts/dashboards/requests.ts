import { DatabaseView } from "../kit/database-view.ts";
import { Durations, type Spread } from "../kit/durations.ts";
import { SPREAD_FIGURES, figureTable, p99Line } from "../kit/figures.ts";
import { pageHeaders, signIn, signInOperator, type DashboardPlace } from "../kit/sign-in.ts";

/** What a screen asks, again and again. */
interface PageRequest {
  readonly screen: string;
  readonly name: string;
  readonly path: () => string;
}

const TIMES = 300;
const WARM_UP = 20;
const P99_MS_MAX = 50;
const DAY_MS = 86_400_000;

/** Asks what each screen asks, one request after the other: an account's screens, then the operator's. */
export async function measureRequests(place: DashboardPlace): Promise<string> {
  using view = new DatabaseView(place.file.database);
  const origin = `http://127.0.0.1:${place.daemon.port}`;
  const ofAccount = { origin, headers: pageHeaders(await signIn(place)) };
  const ofOperator = { origin, headers: pageHeaders(await signInOperator(place)) };
  const latencies = [];
  for (const each of accountRequests(view))
    latencies.push({ ...each, ...(await measure(each, ofAccount)) });
  for (const each of operatorRequests())
    latencies.push({ ...each, ...(await measure(each, ofOperator)) });
  const rows = latencies.map((each) => ({ what: [each.screen, each.name], runs: [each] }));
  const table = figureTable(SPREAD_FIGURES, rows, { what: ["screen", "request"] });
  return `${table}\n${p99Line("request", latencies, P99_MS_MAX)}\n`;
}

async function measure(
  { path }: PageRequest,
  { origin, headers }: { readonly origin: string; readonly headers: Record<string, string> },
): Promise<Spread> {
  const times = new Durations();
  for (let i = 0; i < WARM_UP + TIMES; i++) {
    const startedAt = performance.now();
    const response = await fetch(origin + path(), { headers });
    await response.arrayBuffer();
    if (!response.ok) throw new Error(`GET ${path()} was answered with ${response.status}`);
    if (i >= WARM_UP) times.add(performance.now() - startedAt);
  }
  return times.spread;
}

function accountRequests(view: DatabaseView): readonly PageRequest[] {
  const anyId = view.anyTask();
  return [
    fixed("any", "session"),
    fixed("Overview", "stats/overview"),
    ...[1 / 24, 1, 7, 30].map((days) => series("Overview", days)),
    ...["", "state:failed", "state:ready", "tag:tagged", "delivery:given_up,refused"].map(search),
    // Words that few tasks match, or none.
    ...["host:example.com", "delivery:retrying", "code:50401", "type:none", "before:2d"].map(
      search,
    ),
    { screen: "Task", name: "tasks/timeline/ID", path: () => `/v1/tasks/timeline/${anyId()}` },
    {
      screen: "Task",
      name: "tasks/task_get/ID",
      path: () => `/v1/tasks/task_get/${anyId()}?collect=false`,
    },
    ...[1, 30].map((days) => hosts("Hosts", days)),
    fixed("Hosts", "redeliveries"),
    fixed("Keys", "appendix/user_data"),
  ];
}

// Of all accounts together.
function operatorRequests(): readonly PageRequest[] {
  const searches = ["", "state:queued", "tag:tagged", "host:example.com", "before:2d"].map(search);
  const ofAll = [
    fixed("", "stats/overview"),
    ...[1, 30].map((days) => series("", days)),
    ...searches,
    ...[1, 30].map((days) => hosts("", days)),
  ];
  return [
    ...ofAll.map((each) => ({ ...each, screen: "all accounts" })),
    fixed("Accounts", "operator/accounts"),
    fixed("Access requests", "operator/access_requests"),
    fixed("Pauses", "operator/delivery_pauses"),
    fixed("Runners", "operator/runners"),
    fixed("Audit", "operator/audit"),
    fixed("System", "operator/system"),
  ];
}

function fixed(screen: string, path: string, name = path): PageRequest {
  return { screen, name, path: () => `/v1/${path}` };
}

function search(q: string): PageRequest {
  return fixed("Tasks", `tasks/search?q=${encodeURIComponent(q)}`, `search ${q}`);
}

function series(screen: string, days: number): PageRequest {
  const name = `stats/series of ${days < 1 ? "1 h" : `${days} d`}`;
  return fixed(screen, `stats/series?from=${daysAgo(days)}`, name);
}

function hosts(screen: string, days: number): PageRequest {
  return fixed(screen, `stats/hosts?since=${daysAgo(days)}`, `stats/hosts of ${days} d`);
}

function daysAgo(days: number): string {
  return new Date(Date.now() - days * DAY_MS).toISOString();
}
