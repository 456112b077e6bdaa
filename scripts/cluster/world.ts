import { Cluster } from "../kit/cluster.ts";
import type { Bench } from "../kit/command.ts";
import { DaemonAddress } from "../kit/daemon-address.ts";
import { PostgresProxy } from "../kit/postgres-proxy.ts";
import { PostgresServer, type PostgresSettings } from "../kit/postgres-server.ts";
import { Random } from "../kit/random.ts";
import { failingAtFirst, openReceiver, webhookUrls } from "../kit/webhook-receiver.ts";
import { Client } from "../soak/client.ts";
import { Ledger } from "../soak/ledger.ts";
import { lightTasks } from "../soak/task-plan.ts";

/** What differs between worlds. */
export interface WorldOptions {
  readonly nodes: number;
  /** Whether the daemons reach the server through a proxy. */
  readonly hasProxy?: boolean;
  /** Whether a standby follows the server, without which nothing is acknowledged. */
  readonly hasStandby?: boolean;
  readonly settings?: PostgresSettings;
  readonly flags?: readonly string[];
}

/** A cluster with its server, a client that posts all the time, and a receiver of webhooks. */
export type World = Awaited<ReturnType<typeof openWorld>>;

const LANES = 8;
const PAUSE_MS = 20;
// A row is about faults, not about a growing queue.
const MISSING_MAX = 3000;

// Retries and faults meet in one series.
const statusOf = failingAtFirst(/[01]$/, 1);
const CONFIGURATION = `\n[webhooks]\nretry_after = ["1s", "2s", "3s"]\n`;

/** Opens one; all that it holds is gone when `used` is disposed of. */
export async function openWorld(
  { place }: Pick<Bench, "place">,
  options: WorldOptions,
  used: AsyncDisposableStack,
) {
  const { nodes, settings, hasProxy = false, hasStandby = false, flags = [] } = options;
  const server = used.use(await PostgresServer.start({ ...(settings && { settings }) }));
  const standby = hasStandby ? used.use(await PostgresServer.start({ standbyOf: server })) : null;
  if (standby !== null) server.reload({ synchronous_standby_names: standby.name });
  const proxy = hasProxy ? used.use(await PostgresProxy.open(server.port)) : null;
  const direct = standby === null ? server.url : bothServers(server, standby);
  const url = proxy?.through(server.url) ?? direct;
  const cluster = used.use(await Cluster.start({ place, url, nodes, flags, more: CONFIGURATION }));
  const ledger = new Ledger();
  const { account } = cluster;
  const { webhookSecret: secret } = account;
  const receiver = used.use(
    await openReceiver((webhook, status) => ledger.receive(webhook, { status, secret }), {
      statusOf,
    }),
  );
  const address = new DaemonAddress();
  address.url = cluster.url;
  const habit = { lanes: LANES, pauseMs: PAUSE_MS, plan: lightTasks, missingMax: MISSING_MAX };
  const random = new Random(1);
  const webhooks = webhookUrls(receiver);
  const client = new Client({ account, address, webhooks, ledger, random, habit });
  return { server, standby, proxy, cluster, ledger, address, client };
}

function bothServers(server: PostgresServer, standby: PostgresServer): string {
  const both = server.url.replace(`:${server.port}/`, `:${server.port},127.0.0.1:${standby.port}/`);
  return `${both}?target_session_attrs=read-write`;
}
