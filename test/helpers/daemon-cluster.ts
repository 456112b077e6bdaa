import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import pg from "pg";

import { Balancer } from "../../scripts/kit/cluster.ts";
import type { Config } from "../../src/config/config.ts";
import type { Daemon } from "../../src/daemon/daemon.ts";
import { sessionScope } from "../../src/daemon/system.ts";
import { systemClock } from "../../src/domain/clock/clock.ts";
import { createTestAccount, startOn, testConfig } from "./daemon.ts";
import type { Served, ServeOptions } from "./daemon.ts";
import { newDatabaseUrl } from "./postgres.ts";
import { forgetSessions, nameSessions } from "./session-name.ts";

// The daemons' clocks may be milliseconds ahead of PostgreSQL.
const NEARLY_NOW = "extract(epoch FROM clock_timestamp()) * 1000 + 500";

// Tasks and attempts that daemons would start now, or have in progress.
const OPEN_WORK = `
  WITH open AS (SELECT seq FROM accounts WHERE disabled_at IS NULL)
  SELECT
    (SELECT count(*) FROM queue WHERE state = 'running' AND node_seq IS NOT NULL)::int
    + (SELECT count(*) FROM queue WHERE state = 'queued' AND type = ANY($1) AND account_seq IN (TABLE open))::int
    + (SELECT count(*) FROM outbox WHERE started_at IS NOT NULL)::int
    + (SELECT count(*) FROM outbox WHERE due_at <= ${NEARLY_NOW} AND account_seq IN (TABLE open))::int AS count`;

// All use the port of the balancer, since cookies contain the port.
const HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"];
const LOOK_MS = 5;

/** Databases by folder, to start on the data of an earlier cluster. */
const databases = new Map<string, string>();

/** Serves a test by three daemons of this process that share a PostgreSQL database, behind a balancer. */
export async function serveByCluster(t: TestContext, options: ServeOptions): Promise<Served> {
  const { folder } = options;
  const url = databases.get(folder) ?? (await newDatabaseUrl(t));
  databases.set(folder, url);
  const account = options.account ?? (await createTestAccount(url));
  const balancer = await Balancer.open();
  const configs = HOSTS.map((host) => nodeConfig(host, { url, port: balancer.port, options }));
  const daemons = await Promise.all(configs.map((config) => startOn(config, options)));
  balancer.direct(configs.map(({ host, port }) => `${host}:${port}`));
  const database = new pg.Pool({ connectionString: url, max: 1, allowExitOnIdle: true });
  const types = configs.flatMap((config) => ownTypes(config));
  const isIdle = async (): Promise<boolean> => (await countOpen(database, types)) === 0;
  const daemon = joined(daemons, { balancer, isIdle });
  for (const config of configs) nameSessions(balancer.url, sessionScope(config) ?? "");
  const end = async (): Promise<void> => {
    await daemon.stop({ ms: 0, clock: systemClock });
    forgetSessions(balancer.url);
    await balancer[Symbol.asyncDispose]();
    await database.end();
  };
  return { daemon, file: url, account, end };
}

/** The types that the daemons run themselves. */
function ownTypes({ types }: Config): readonly string[] {
  return [...types].filter(([, { kind }]) => kind !== "worker").map(([name]) => name);
}

async function countOpen(database: pg.Pool, types: readonly string[]): Promise<number> {
  const { rows } = await database.query<{ count: number }>(OPEN_WORK, [types]);
  return rows[0]?.count ?? 0;
}

interface NodePlace {
  readonly url: string;
  readonly port: number;
  readonly options: ServeOptions;
}

function nodeConfig(host: string, { url, port, options }: NodePlace): Config {
  const { folder, toml = "" } = options;
  const state = JSON.stringify(join(folder, "state"));
  const flags = { db: url, host, "node-name": `node-${host}` };
  return testConfig(folder, { port, toml: `${toml}\n[node]\nstate_folder = ${state}\n` }, flags);
}

interface Joint {
  readonly balancer: Balancer;
  readonly isIdle: () => Promise<boolean>;
}

/** Several daemons as one. */
function joined(daemons: readonly Daemon[], { balancer, isIdle }: Joint): Daemon {
  const [first] = daemons;
  if (first === undefined) throw new Error("a cluster of none");
  return {
    url: balancer.url,
    port: balancer.port,
    hadAccounts: first.hadAccounts,
    store: first.store,
    async idle() {
      do {
        await sleep(LOOK_MS);
        await Promise.all(daemons.map((daemon) => daemon.idle()));
      } while (!(await isIdle()));
    },
    gauges: () => first.gauges(),
    metricsUrl: first.metricsUrl,
    async hasTurned() {
      await Promise.all(daemons.map((daemon) => daemon.hasTurned()));
    },
    reload(next) {
      for (const daemon of daemons) daemon.reload(next);
    },
    async stop(drain) {
      await Promise.all(daemons.map((daemon) => daemon.stop(drain)));
    },
  };
}
