import { DatabaseView } from "../kit/database-view.ts";
import { Durations, type Spread } from "../kit/durations.ts";
import { pageHeaders, signIn, signInOperator, type DashboardPlace } from "../kit/sign-in.ts";

/** How long one request of a screen took, asked again and again by one page. */
export interface RequestLatency extends Spread {
  readonly screen: string;
  readonly name: string;
}

interface PageRequest {
  readonly screen: string;
  readonly name: string;
  readonly path: () => string;
}

const TIMES = 300;
const WARM_UP = 20;
const HOUR_MS = 3_600_000;

/** Asks what each screen asks, one request after the other: an account's screens, then the operator's. */
export async function measureRequests(place: DashboardPlace): Promise<readonly RequestLatency[]> {
  using view = new DatabaseView(place.file.database);
  const ofAccount = pageHeaders(await signIn(place));
  const ofOperator = pageHeaders(await signInOperator(place));
  const origin = `http://127.0.0.1:${place.daemon.port}`;
  const latencies: RequestLatency[] = [];
  for (const each of accountRequests(view)) {
    latencies.push(await measure(each, { origin, headers: ofAccount }));
  }
  for (const each of operatorRequests()) {
    latencies.push(await measure(each, { origin, headers: ofOperator }));
  }
  return latencies;
}

async function measure(
  { screen, name, path }: PageRequest,
  { origin, headers }: { readonly origin: string; readonly headers: Record<string, string> },
): Promise<RequestLatency> {
  const times = new Durations();
  for (let i = 0; i < WARM_UP + TIMES; i++) {
    const startedAt = performance.now();
    const response = await fetch(origin + path(), { headers });
    await response.arrayBuffer();
    if (!response.ok) throw new Error(`GET ${path()} was answered with ${response.status}`);
    if (i >= WARM_UP) times.add(performance.now() - startedAt);
  }
  return { screen, name, ...times.spread };
}

function accountRequests(view: DatabaseView): readonly PageRequest[] {
  const ids = view.column("SELECT id FROM tasks WHERE abs(random()) % 200 = 0 LIMIT 5000");
  const anyId = (): string => String(ids[Math.floor(Math.random() * ids.length)]);
  const search = (q: string): PageRequest => searchFor("Tasks", q);
  return [
    fixed("any", "/v1/session"),
    fixed("Overview", "/v1/stats/overview"),
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
    fixed("Hosts", "/v1/redeliveries"),
    fixed("Keys", "/v1/appendix/user_data"),
  ];
}

// Of all accounts together.
function operatorRequests(): readonly PageRequest[] {
  const ofAll = "all accounts";
  return [
    fixed(ofAll, "/v1/stats/overview"),
    ...[1, 30].map((days) => series(ofAll, days)),
    ...["", "state:queued", "tag:tagged", "host:example.com", "before:2d"].map((q) =>
      searchFor(ofAll, q),
    ),
    ...[1, 30].map((days) => hosts(ofAll, days)),
    fixed("Accounts", "/v1/operator/accounts"),
    fixed("Access requests", "/v1/operator/access_requests"),
    fixed("Runners", "/v1/operator/runners"),
    fixed("System", "/v1/operator/system"),
  ];
}

function fixed(screen: string, path: string): PageRequest {
  return { screen, name: path.replace("/v1/", ""), path: () => path };
}

function searchFor(screen: string, q: string): PageRequest {
  return { ...fixed(screen, `/v1/tasks/search?q=${encodeURIComponent(q)}`), name: `search ${q}` };
}

function series(screen: string, days: number): PageRequest {
  const name = `stats/series of ${days < 1 ? "1 h" : `${days} d`}`;
  return { ...fixed(screen, `/v1/stats/series?from=${daysAgo(days)}`), name };
}

function hosts(screen: string, days: number): PageRequest {
  return {
    ...fixed(screen, `/v1/stats/hosts?since=${daysAgo(days)}`),
    name: `stats/hosts of ${days} d`,
  };
}

function daysAgo(days: number): string {
  return new Date(Date.now() - days * 24 * HOUR_MS).toISOString();
}
