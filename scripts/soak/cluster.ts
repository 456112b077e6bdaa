import { DaemonAddress } from "../kit/client.ts";
import { Cluster } from "../kit/cluster.ts";
import type { Bench } from "../kit/command.ts";
import { queryOnce } from "../kit/database.ts";
import { factTable } from "../kit/measure.ts";
import { PostgresProxy } from "../kit/postgres-proxy.ts";
import { PostgresServer } from "../kit/postgres-server.ts";
import { Random } from "../kit/random.ts";
import { failingAtFirst, openReceiver, webhookUrls } from "../kit/receiver.ts";
import { until } from "../kit/until.ts";
import { Client, echoTasks, lightTasks } from "./client.ts";
import { judgeCluster, openWork } from "./cluster-verdict.ts";
import { Ledger } from "./ledger.ts";

/** A figure of a fault's own. */
export type Fact = readonly [what: string, figure: string | number];

/** How often and how long a fault happens. */
export interface Strength {
  readonly rounds: number;
  readonly seconds: number;
}

/** One way in which a daemon, the server or the network between them fails. */
export interface Fault {
  readonly about: string;
  /** Unless given otherwise. */
  readonly usual: Strength;
  /** Three daemons unless given. */
  readonly nodes?: number;
  /** Whether the daemons reach the server through a proxy. */
  readonly hasProxy?: true;
  /** Whether a standby follows the server: with `sync` nothing is acknowledged without it. */
  readonly standby?: "sync" | "async";
  /** Whether the latest acknowledged tasks may be lost: then they are counted. */
  readonly mayLose?: true;
  /**
   * Does the damage, and settles when it is over. It calls `world.fault` at each moment from which work may have been cut
   * off, and throws if something does not happen in time.
   */
  readonly damage: (world: ClusterWorld, strength: Strength) => Promise<readonly Fact[]>;
}

/** A cluster with its server, a client that posts all the time, and a receiver of webhooks. */
export type ClusterWorld = Awaited<ReturnType<typeof openClusterWorld>>;

const LANES = 8;
const PAUSE_MS = 20;
// A fault is about damage, not about a growing queue.
const MISSING_MAX = 3000;
// A standby that no commit waits for would hardly be behind on one machine.
const LAG_MS = 150;
const STALL_MS_MAX = 120_000;
const FAULTS_SHOWN = 20;
// Something is under way when the first fault comes.
const WARM_TASKS = 200;

// Retries and faults meet in one delivery.
const statusOf = failingAtFirst(/[01]$/, 1);
const CONFIGURATION = `\n[webhooks]\nretry_after = ["1s", "2s", "3s"]\n`;

/** Runs a fault under load, prints its figures, and rejects unless the verdict is clean. */
export async function runFault(
  { place, note, print }: Bench,
  fault: Fault,
  { flags, ...strength }: Strength & { readonly flags: readonly string[] },
): Promise<void> {
  await using used = new AsyncDisposableStack();
  const world = await openClusterWorld({ place, fault, flags }, used);
  const { ledger, client, address, database } = world;
  const posting = new AbortController();
  const posts = client.run(posting.signal);
  // A failure ends the fault: it is awaited below.
  posts.catch(() => posting.abort());
  const startedAt = performance.now();
  try {
    const nothing = (): string => "nothing is posted";
    await until(() => ledger.tasks.size > WARM_TASKS, { msMax: STALL_MS_MAX, fault: nothing });
    const facts = await fault.damage(world, strength);
    posting.abort();
    await address.within(STALL_MS_MAX, posts);
    await until(async () => (await openWork(database.url)) === 0, {
      ...{ msMax: STALL_MS_MAX, everyMs: 200, progress: () => ledger.arrivals.length },
      fault: () => `not everything is done, and ${ledger.missing} webhooks are missing`,
    });
    const { faultsAt } = world;
    const mayLose = fault.mayLose ?? false;
    const tally = await judgeCluster(database.url, { ledger, faultsAt, mayLose });
    print(
      factTable([
        ["seconds", ((performance.now() - startedAt) / 1000).toFixed(0)],
        ...facts,
        ["tasks acknowledged", ledger.tasks.size],
        ["tasks ended, each once", tally.ended],
        ["tasks acknowledged and lost", tally.lost],
        ["tasks run more than once", tally.rerun],
        ["posts sent again because their response was cut off or 503", client.repeated],
        ["of those, on disk before and answered as stored", client.replayed],
        ["webhooks received", ledger.arrivals.length],
        ["attempts interrupted and made again", tally.interrupted],
        ["duplicates", tally.duplicates],
        ["duplicates and attempts that none of these explains", tally.unexplained],
        ["incarnations of daemons that ended or were cut off", tally.nodeEnds],
        ["violations of any kind", tally.faults.length],
      ]),
    );
    const { faults } = tally;
    if (faults.length > 0)
      throw new Error(`${faults.length} violations:\n${faults.slice(0, FAULTS_SHOWN).join("\n")}`);
  } finally {
    address.isOver = true;
    posting.abort();
    for (const { name, daemon } of world.cluster.running)
      if (daemon.log.includes('"level":"error"')) note(`${name}: ${daemon.log}`);
  }
}

/** Opens a world; all that it holds is gone when `used` is disposed of. */
export async function openClusterWorld(
  {
    place,
    fault,
    flags = [],
  }: Pick<Bench, "place"> & {
    readonly fault: Pick<Fault, "nodes" | "hasProxy" | "standby">;
    /** Of each daemon. */
    readonly flags?: readonly string[];
  },
  used: AsyncDisposableStack,
) {
  const { nodes = 3, hasProxy = false, standby: following } = fault;
  const server = used.use(await PostgresServer.start());
  const follow = (primary: PostgresServer, port?: number): Promise<PostgresServer> =>
    openStandby({ of: primary, port, isSync: following === "sync" }, used);
  const standby = following === undefined ? null : await follow(server);
  const proxy = hasProxy ? used.use(await PostgresProxy.open(server.port)) : null;
  const direct = standby === null ? server.url : bothServers(server, standby);
  const url = proxy?.through(server.url) ?? direct;
  const cluster = used.use(await Cluster.start({ place, url, nodes, flags, more: CONFIGURATION }));
  const ledger = new Ledger({ mayForget: following === "async" });
  const { account } = cluster;
  const { webhookSecret: secret } = account;
  const receiver = await openReceiver(
    (webhook, status) => ledger.receive(webhook, { status, secret }),
    { statusOf },
  );
  const webhooks = webhookUrls(used.use(receiver));
  const address = new DaemonAddress();
  address.url = cluster.url;
  const usual = { lanes: LANES, pauseMs: PAUSE_MS, missingMax: MISSING_MAX };
  // A task that may be lost can be neither posted again nor cancelled.
  const habit =
    following === "async"
      ? { ...usual, plan: echoTasks, repeated: 0 }
      : { ...usual, plan: lightTasks };
  const random = new Random(1);
  const client = new Client({ account, address, webhooks, ledger, random, habit });
  // Another server after a failover.
  const database = { url: server.url };
  const faultsAt: number[] = [];
  const world = { server, standby, follow, proxy, cluster, ledger, address, client, database };
  return { ...world, faultsAt, fault: () => void faultsAt.push(Date.now()) };
}

/** A synchronous standby, or an asynchronous one that is always a little behind. It listens at `port`, if given. */
async function openStandby(
  {
    of: primary,
    port,
    isSync,
  }: {
    readonly of: PostgresServer;
    readonly port: number | undefined;
    readonly isSync: boolean;
  },
  used: AsyncDisposableStack,
): Promise<PostgresServer> {
  const way = isSync ? null : used.use(await PostgresProxy.open(primary.port));
  const followAt = way?.port ?? primary.port;
  const place = { standbyOf: primary, followAt, ...(port !== undefined && { port }) };
  const standby = used.use(await PostgresServer.start(place));
  if (way === null) primary.reload({ synchronous_standby_names: standby.name });
  else way.delayMs = LAG_MS;
  return standby;
}

function bothServers(server: PostgresServer, standby: PostgresServer): string {
  const both = server.url.replace(`:${server.port}/`, `:${server.port},127.0.0.1:${standby.port}/`);
  return `${both}?target_session_attrs=read-write`;
}

// A daemon's own name is a part of the name of its connections.
const CONNECTIONS = `
  SELECT application_name AS name, count(*)::int AS count FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND application_name LIKE 'postbackd node-%' GROUP BY 1`;

/** How many connections to a server each daemon has, by its name. */
export async function countConnections({
  url,
}: Pick<PostgresServer, "url">): Promise<ReadonlyMap<string, number>> {
  const rows = await queryOnce<{ name: string; count: number }>(url, CONNECTIONS);
  return new Map(rows.map(({ name, count }) => [name, count]));
}

// A daemon checks its server every five seconds.
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
