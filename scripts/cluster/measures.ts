import pg from "pg";

import { spreadOf } from "../kit/durations.ts";
import type { PostgresServer } from "../kit/postgres-server.ts";
import { until } from "../kit/until.ts";
import type { Fact } from "./run-row.ts";
import type { World } from "./world.ts";

/** Contract §11, and what a machine that is busy adds. */
export const BACK_MS_MAX = 15_000;

/** Settles when more tasks have been acknowledged and more webhooks have come. */
export async function progress(ledger: World["ledger"]): Promise<void> {
  const [tasks, arrivals] = [ledger.tasks.size + 20, ledger.arrivals.length + 20];
  await until(() => ledger.tasks.size > tasks && ledger.arrivals.length > arrivals, {
    msMax: 60_000,
    fault: () => `no progress: ${ledger.tasks.size} tasks, ${ledger.arrivals.length} webhooks`,
  });
}

/** How long it takes until the next task is acknowledged. Rejects when that is later than promised. */
export async function msToProgress(
  ledger: World["ledger"],
  msMax: number = BACK_MS_MAX,
): Promise<number> {
  const [since, before] = [performance.now(), ledger.tasks.size];
  await until(() => ledger.tasks.size > before, {
    msMax,
    everyMs: 5,
    fault: () => `nothing is acknowledged ${msMax} ms after the fault is over`,
  });
  return performance.now() - since;
}

/** How long it took each time to come back. */
export function backFacts(ms: readonly number[]): readonly Fact[] {
  const { p50Ms, p99Ms, maxMs } = spreadOf(ms);
  return [
    ["from its end to the next acknowledged task, p50 ms", p50Ms.toFixed(0)],
    ["p99 ms", p99Ms.toFixed(0)],
    ["at most, ms", maxMs.toFixed(0)],
  ];
}

/** No daemon may have ended by itself. */
export function requireAll({ nodes }: World["cluster"]): void {
  for (const { daemon } of nodes) daemon.requireRunning();
}

// A daemon's own name is a part of that of its connections.
const CONNECTIONS = `
  SELECT application_name AS name, count(*)::int AS count FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND application_name LIKE 'postbackd node-%' GROUP BY 1`;

/** How many connections to a server each daemon has, by its name. */
export async function countConnections({
  url,
}: Pick<PostgresServer, "url">): Promise<ReadonlyMap<string, number>> {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query<{ name: string; count: number }>(CONNECTIONS);
  await client.end();
  return new Map(rows.map(({ name, count }) => [name, count]));
}

// A daemon looks at its server every five seconds.
const WARNING_MS_MAX = 30_000;

/** Settles when a daemon warns of something at its `/readyz`. */
export async function requireWarning(url: string, warning: RegExp): Promise<void> {
  let told = "";
  const isWarned = async (): Promise<boolean> => {
    told = await (await fetch(`${url}/readyz`)).text();
    return warning.test(told);
  };
  const fault = (): string => `${url}/readyz does not warn of ${String(warning)}: ${told}`;
  await until(isWarned, { msMax: WARNING_MS_MAX, everyMs: 100, fault });
}
