import { Cluster } from "../kit/cluster.ts";
import type { Bench } from "../kit/command.ts";
import { DaemonAddress } from "../kit/daemon-address.ts";
import { PostgresProxy } from "../kit/postgres-proxy.ts";
import { PostgresServer, type PostgresSettings } from "../kit/postgres-server.ts";
import { Random } from "../kit/random.ts";
import { failingAtFirst, openReceiver, webhookUrls } from "../kit/webhook-receiver.ts";
import { Client, type ClientDeps } from "../soak/client.ts";
import { Ledger } from "../soak/ledger.ts";
import { echoTasks, lightTasks } from "../soak/task-plan.ts";

/** What differs between worlds. */
export interface WorldOptions {
  readonly nodes: number;
  /** Whether the daemons reach the server through a proxy. */
  readonly hasProxy?: boolean;
  /** Whether a standby follows the server: by `sync` nothing is acknowledged without it. */
  readonly standby?: "sync" | "async";
  readonly settings?: PostgresSettings;
  readonly flags?: readonly string[];
}

/** A post that its client sent once: when, on the clock of `performance`, and how long its answer took. */
export interface AnsweredPost {
  readonly sentAt: number;
  readonly ms: number;
}

/** A cluster with its server, a client that posts all the time, and a receiver of webhooks. */
export type World = Awaited<ReturnType<typeof openWorld>>;

const LANES = 8;
const PAUSE_MS = 20;
// A row is about faults, not about a growing queue.
const MISSING_MAX = 3000;

// Of a standby that no commit waits for: on one machine it would hardly be behind.
const LAG_MS = 150;

// Retries and faults meet in one series.
const statusOf = failingAtFirst(/[01]$/, 1);
const CONFIGURATION = `\n[webhooks]\nretry_after = ["1s", "2s", "3s"]\n`;

/** Opens one; all that it holds is gone when `used` is disposed of. */
export async function openWorld(
  { place }: Pick<Bench, "place">,
  options: WorldOptions,
  used: AsyncDisposableStack,
) {
  const { nodes, settings, hasProxy = false, standby: following, flags = [] } = options;
  const server = used.use(await PostgresServer.start({ ...(settings && { settings }) }));
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
  const receiver = used.use(
    await openReceiver((webhook, status) => ledger.receive(webhook, { status, secret }), {
      statusOf,
    }),
  );
  const address = new DaemonAddress();
  address.url = cluster.url;
  const usual = { lanes: LANES, pauseMs: PAUSE_MS, missingMax: MISSING_MAX };
  // What may be lost can be neither asked for again nor cancelled.
  const habit =
    following === "async"
      ? { ...usual, plan: echoTasks, repeated: 0 }
      : { ...usual, plan: lightTasks };
  const random = new Random(1);
  const webhooks = webhookUrls(receiver);
  const { posts, hooks } = timePosts();
  const client = new Client({ account, address, webhooks, ledger, random, habit, ...hooks });
  // Where the database is: elsewhere after a failover.
  const database = { url: server.url };
  return { server, standby, follow, proxy, cluster, ledger, address, client, posts, database };
}

function timePosts() {
  const posts: AnsweredPost[] = [];
  const sent = new Map<string, number>();
  const hooks = {
    onPost: ({ key }) => sent.set(key, performance.now()),
    onDone(work) {
      const sentAt = work.kind === "post" ? sent.get(work.key) : undefined;
      if (sentAt === undefined || work.kind !== "post") return;
      sent.delete(work.key);
      if (!work.wasCutOff) posts.push({ sentAt, ms: performance.now() - sentAt });
    },
  } satisfies Pick<ClientDeps, "onPost" | "onDone">;
  return { posts, hooks };
}

interface StandbyOptions {
  readonly of: PostgresServer;
  /** Where it listens; anywhere unless given. */
  readonly port: number | undefined;
  readonly isSync: boolean;
}

/** A standby, for which commits wait; or one that is always a little behind. */
async function openStandby(
  { of: primary, port, isSync }: StandbyOptions,
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
