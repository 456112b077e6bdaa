import { setTimeout as sleep } from "node:timers/promises";

import type { ClusterNode } from "../kit/cluster.ts";
import { queryOnce } from "../kit/database.ts";
import { acceptedIds } from "../kit/http.ts";
import { spreadOf } from "../kit/measure.ts";
import type { PostgresProxy } from "../kit/postgres-proxy.ts";
import type { PostgresServer } from "../kit/postgres-server.ts";
import { until } from "../kit/until.ts";
import { bookPost } from "./client.ts";
import {
  countConnections,
  requireWarning,
  type ClusterWorld,
  type Fact,
  type Fault,
} from "./cluster.ts";

/** guarantees.md, "Clusters", and what a busy machine adds. */
const BACK_MS_MAX = 15_000;
const STUCK_MS_MAX = 120_000;
const NODES = 3;
// Numbers of messages to let pass before a cut: so each place of a batch comes.
const PLACES = 61;
// Of cuts. Some meet what cannot be settled immediately, such as the heartbeat of a node.
const SLOW_SHARE_MAX = 0.01;
// Of few cuts as well: the machine may be busy.
const SLOW_MAX = 2;
// Eight, one of them for notifications, and one for a moment when another daemon has ended.
const CONNECTIONS_MAX = 9;

/** A loss is sent again after 200 ms; the second loss of a piece ends its connection. */
export const lose = (percent: number): Fault => ({
  about: `${percent} % of what passes between daemons and PostgreSQL is lost and sent again, as TCP does it.`,
  usual: { rounds: 1, seconds: 120 },
  hasProxy: true,
  async damage(world, { seconds }) {
    const proxy = proxyOf(world);
    const before = world.ledger.tasks.size;
    proxy.lose({ rate: percent / 100, resendMs: 200, triesMax: 1 });
    for (let second = 0; second < seconds; second++) {
      await sleep(1000);
      // Each moment may cut something off.
      world.fault();
    }
    const tasks = world.ledger.tasks.size - before;
    const facts = await repeat(world, 1, async () => {
      proxy.lose(null);
      world.fault();
    });
    return [
      ["pieces lost", proxy.losses],
      ["connections that ended so", proxy.cuts],
      ["tasks acknowledged per second meanwhile", (tasks / seconds).toFixed(0)],
      ...facts,
    ];
  },
});

/** By name; each with `--rounds` and `--seconds`. */
export const CLUSTER_FAULTS = {
  "kill-node": {
    about: "kill -9 of a daemon, again and again; each starts again.",
    usual: { rounds: 30, seconds: 0 },
    async damage(world, { rounds }) {
      const elsewhere: number[] = [];
      for (let round = 0; round < rounds; round++) {
        const node = world.cluster.node(round % NODES);
        await progress(world);
        await untilItRuns(world, node, round);
        await node.kill();
        world.fault();
        elsewhere.push(...(await msToElsewhere(world, node)));
        await progress(world);
        await node.start();
      }
      const { count, p50Ms, maxMs } = spreadOf(elsewhere);
      return [
        [`until its runs had started elsewhere, p50 s of ${count}`, (p50Ms / 1000).toFixed(1)],
        ["at most, s", (maxMs / 1000).toFixed(1)],
      ];
    },
  },
  "kill-postgres": {
    about: "kill -9 of PostgreSQL, again and again; it is away for --seconds.",
    usual: { rounds: 10, seconds: 3 },
    damage: (world, { rounds, seconds }) =>
      repeat(world, rounds, async () => {
        await world.server.kill();
        world.fault();
        await sleep(seconds * 1000);
        await world.server.startAgain();
      }),
  },
  "stop-node": {
    about: "SIGSTOP of a daemon for longer than it may be silent, then SIGCONT.",
    usual: { rounds: 3, seconds: 60 },
    damage: (world, { rounds, seconds }) =>
      repeat(world, rounds, async (round) => {
        const node = world.cluster.node(round % NODES);
        node.pause();
        world.fault();
        await sleep(seconds * 1000);
        node.resume();
        world.fault();
      }),
  },
  "join-leave": {
    about: "Nine daemons join and leave at the same time, again and again.",
    usual: { rounds: 50, seconds: 0 },
    nodes: 1,
    async damage(world, { rounds }) {
      const others = await world.cluster.grow(9);
      let most = 0;
      const facts = await repeat(world, rounds, async () => {
        for (const [name, count] of await countConnections(world.server)) {
          most = Math.max(most, count);
          if (count > CONNECTIONS_MAX) throw new Error(`${name} has ${count} connections`);
        }
        await Promise.all(others.map((node) => node.stop()));
        await progress(world);
        await Promise.all(others.map((node) => node.start()));
      });
      return [
        ["connections of a daemon, at most", most],
        ["requests that no daemon accepted", world.cluster.balancer.refused],
        ...facts,
      ];
    },
  },
  cut: {
    about: "Cuts connections to PostgreSQL right after a message, at every place of a batch.",
    usual: { rounds: 10_000, seconds: 0 },
    hasProxy: true,
    async damage(world, { rounds }) {
      const proxy = proxyOf(world);
      const back: number[] = [];
      for (let round = 0; round < rounds; round++) {
        const { cuts } = proxy;
        proxy.cutAfter(1 + (round % PLACES));
        const stuck = (): string => "nothing passes the proxy";
        await until(() => proxy.cuts > cuts, { msMax: STUCK_MS_MAX, everyMs: 1, fault: stuck });
        world.fault();
        // Or every cut would meet connections that are being made.
        back.push(await msToProgress(world, STUCK_MS_MAX));
      }
      await progress(world);
      requireAll(world.cluster);
      const slow = back.filter((ms) => ms > BACK_MS_MAX).length;
      const what = `cuts without progress in ${BACK_MS_MAX} ms`;
      if (slow > SLOW_MAX + rounds * SLOW_SHARE_MAX)
        throw new Error(`${slow} of ${rounds} ${what}`);
      return [["connections cut", proxy.cuts], [what, slow], ...backFacts(back)];
    },
  },
  halt: {
    about:
      "Delays everything by 200 ms; then nothing passes for --seconds, and no connection ends.",
    usual: { rounds: 3, seconds: 30 },
    hasProxy: true,
    damage: (world, { rounds, seconds }) =>
      repeat(world, rounds, async () => {
        const proxy = proxyOf(world);
        proxy.delayMs = 200;
        world.fault();
        await sleep(seconds * 500);
        proxy.delayMs = 0;
        world.fault();
        await progress(world);
        proxy.hold();
        world.fault();
        await sleep(seconds * 1000);
        proxy.release();
        // Stopped data passes now, and reaches the nodes that have taken its work over.
        world.fault();
      }),
  },
  lose: lose(1),
  failover: failover(
    "kill -9 of the server; its synchronous standby is promoted, and gets a standby of its own.",
    { standby: "sync" },
  ),
  "failover-clean": failover("As failover, with a server that is stopped in order.", {
    standby: "sync",
    isClean: true,
  }),
  "failover-async": failover(
    "kill -9 of a server with a standby that no commit waits for: what is lost is counted.",
    { standby: "async", mayLose: true },
  ),
  "standby-gone": {
    about: "The only synchronous standby is away for --seconds: nothing is acknowledged meanwhile.",
    usual: { rounds: 3, seconds: 20 },
    standby: "sync",
    damage: (world, { rounds, seconds }) =>
      repeat(world, rounds, async () => {
        const { ledger, cluster } = world;
        const standby = standbyOf(world);
        await standby.kill();
        world.fault();
        // Posts that had reached it are acknowledged, long before all daemons report why they acknowledge nothing.
        for (const { url } of cluster.nodes) await requireWarning(url, /no write is acknowledged/);
        const before = ledger.tasks.size;
        await sleep(seconds * 1000);
        if (ledger.tasks.size > before) throw new Error("acknowledged without the standby");
        await standby.startAgain();
      }),
  },
} as const satisfies Record<string, Fault>;

/**
 * Damages again and again, measures the time to the next acknowledged task, and calls what the damage returned. All
 * daemons must survive.
 */
async function repeat(
  world: ClusterWorld,
  rounds: number,
  damage: (round: number) => Promise<(() => Promise<void>) | void>,
): Promise<readonly Fact[]> {
  const back: number[] = [];
  for (let round = 0; round < rounds; round++) {
    await progress(world);
    const after = await damage(round);
    back.push(await msToProgress(world));
    await after?.();
  }
  await progress(world);
  requireAll(world.cluster);
  return backFacts(back);
}

function failover(
  about: string,
  how: Pick<Fault, "mayLose"> & {
    readonly standby: "sync" | "async";
    readonly isClean?: true;
  },
): Fault {
  const { isClean = false, ...standby } = how;
  const damage: Fault["damage"] = (world, { rounds }) => {
    const { cluster, database, fault } = world;
    let [primary, next] = [world.server, standbyOf(world)];
    return repeat(world, rounds, async () => {
      await (isClean ? primary.shutDown() : primary.kill());
      fault();
      await next.promote();
      return async () => {
        // The last notifications of the old server come again.
        fault();
        if (how.standby === "async") await isLossLogged(cluster);
        const { port } = primary;
        await primary.stop();
        primary = next;
        database.url = primary.url;
        // At the port that the daemons know.
        next = await world.follow(primary, port);
        await isFollowed(primary, how.standby);
      };
    });
  };
  return { about, usual: { rounds: 10, seconds: 0 }, ...standby, damage };
}

/** Settles when a daemon has logged the loss. */
async function isLossLogged({ nodes }: ClusterWorld["cluster"]): Promise<void> {
  const isLogged = (): boolean =>
    nodes.some(({ daemon }) => daemon.log.includes("lost its last acknowledged commits"));
  await until(isLogged, { msMax: BACK_MS_MAX, fault: () => "no daemon logs the loss" });
}

/** Settles when a standby has all that the server has. */
async function isFollowed({ url }: PostgresServer, state: string): Promise<void> {
  const sql = `SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '${state}'`;
  const isSo = async (): Promise<boolean> => (await queryOnce(url, sql)).length > 0;
  await until(isSo, { msMax: 60_000, fault: () => "no standby follows" });
}

function proxyOf({ proxy }: ClusterWorld): PostgresProxy {
  if (proxy === null) throw new Error("there is no proxy");
  return proxy;
}

function standbyOf({ standby }: ClusterWorld): PostgresServer {
  if (standby === null) throw new Error("there is no standby");
  return standby;
}

/** Settles when more tasks have been acknowledged and more webhooks have arrived. */
async function progress({ ledger }: ClusterWorld): Promise<void> {
  const [tasks, arrivals] = [ledger.tasks.size + 20, ledger.arrivals.length + 20];
  await until(() => ledger.tasks.size > tasks && ledger.arrivals.length > arrivals, {
    msMax: 60_000,
    fault: () => `no progress: ${ledger.tasks.size} tasks, ${ledger.arrivals.length} webhooks`,
  });
}

/** How long it takes until the next task is acknowledged. Rejects if that is later than promised. */
async function msToProgress({ ledger }: ClusterWorld, msMax = BACK_MS_MAX): Promise<number> {
  const [since, before] = [performance.now(), ledger.tasks.size];
  const fault = (): string => `nothing is acknowledged ${msMax} ms after the fault is over`;
  await until(() => ledger.tasks.size > before, { msMax, everyMs: 5, fault });
  return performance.now() - since;
}

function backFacts(ms: readonly number[]): readonly Fact[] {
  const { p50Ms, p99Ms, maxMs } = spreadOf(ms);
  return [
    ["from its end to the next acknowledged task, p50 ms", p50Ms.toFixed(0)],
    ["p99 ms", p99Ms.toFixed(0)],
    ["at most, ms", maxMs.toFixed(0)],
  ];
}

/** Throws if a daemon has ended by itself. */
function requireAll({ nodes }: ClusterWorld["cluster"]): void {
  for (const { daemon } of nodes) daemon.requireRunning();
}

const RUNS_OF = `
  SELECT q.task_seq::float8 AS seq FROM queue AS q JOIN nodes AS n ON n.seq = q.node_seq
  WHERE q.state = 'running' AND n.name = $1`;

// Of these tasks: those that still wait for another run.
const NOT_AGAIN = `
  SELECT q.task_seq FROM queue AS q LEFT JOIN nodes AS n ON n.seq = q.node_seq
  WHERE q.task_seq = ANY($1::bigint[]) AND (q.state <> 'running' OR n.name = $2)`;

/** Posts tasks that take two seconds, until the daemon runs one. */
async function untilItRuns(
  world: ClusterWorld,
  { name }: ClusterNode,
  round: number,
): Promise<void> {
  const { address, client, ledger, cluster, database } = world;
  const key = `parked-${round}`;
  const body = { type: "parked", input: {} };
  const tasks = cluster.nodes.map(() => ({ body, cancelAfterMs: null }));
  const { postbackUrl, pingbackUrl } = client.webhooks;
  const urls = { postback_url: postbackUrl, pingback_url: pingbackUrl };
  const { key: secret } = cluster.account;
  const { text } = await address.ask("/v1/tasks/task_post", {
    secret,
    headers: { "idempotency-key": key },
    body: JSON.stringify(tasks.map((task) => ({ ...task.body, ...urls, tag: key }))),
  });
  const ids = acceptedIds(text);
  bookPost({ kind: "post", key, tasks, ids, wasCutOff: false }, { ledger, apiKey: secret });
  const isRunning = async (): Promise<boolean> =>
    (await queryOnce(database.url, RUNS_OF, [name])).length > 0;
  await until(isRunning, { msMax: 30_000, fault: () => `${name} runs nothing` });
}

/** Settles when the runs that a killed daemon left have started elsewhere: after how long, empty if it left none. */
async function msToElsewhere(
  { database: { url } }: ClusterWorld,
  { name }: ClusterNode,
): Promise<readonly number[]> {
  const since = performance.now();
  const rows = await queryOnce<{ seq: number }>(url, RUNS_OF, [name]);
  const seqs = rows.map(({ seq }) => seq);
  const areAgain = async (): Promise<boolean> =>
    (await queryOnce(url, NOT_AGAIN, [seqs, name])).length === 0;
  const fault = (): string => `what ${name} ran has not started elsewhere within ${BACK_MS_MAX} ms`;
  await until(areAgain, { msMax: BACK_MS_MAX, fault });
  return seqs.length === 0 ? [] : [performance.now() - since];
}
