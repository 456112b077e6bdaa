import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import { Cluster, type ClusterNode } from "../kit/cluster.ts";
import { runProgram } from "../kit/daemon-process.ts";
import { findHaproxy, Haproxy, HOW_TO_GET_HAPROXY } from "../kit/haproxy.ts";
import { findPostgres, HOW_TO_GET_POSTGRES } from "../kit/postgres-binaries.ts";
import { PostgresServer } from "../kit/postgres-server.ts";
import { listProcesses } from "../kit/processes.ts";
import { sourceProgram } from "../kit/program.ts";
import { ScratchFolder } from "../kit/scratch-folder.ts";
import { until } from "../kit/until.ts";
import { openReceiver, type ReceivedWebhook } from "../kit/webhook-receiver.ts";
import { ROOT } from "../manifest.ts";
import { checkAll } from "./cluster-checks.ts";
import { FILE_FACTS, requireForeignHmac, say } from "./file-task.ts";
import { sampleFiles } from "./sample-files.ts";
import { SteadyClient } from "./steady-client.ts";

const FILES = 50;
const FIRST_TASKS = 30;
// A dead daemon's work is taken over within 15 s.
const REPORTED_MS_MAX = 40_000;
const BUSY_MS_MAX = 20_000;
// Long enough for a kill to find webhooks that have arrived and are not answered: these come again.
const RECEIVER_MS = 300;
const DATABASE_GONE_MS = 2000;

/**
 * The main job by three daemons on PostgreSQL behind HAProxy, while a client posts all the time: one daemon is killed,
 * then the database. Rejects, with the reason, at whatever is not as it should be.
 */
export async function clusterDemo(): Promise<void> {
  const haproxyName = findHaproxy();
  assert(haproxyName !== null, HOW_TO_GET_HAPROXY);
  assert(findPostgres() !== null, HOW_TO_GET_POSTGRES);
  const hmac = requireForeignHmac();
  using scratch = new ScratchFolder();
  const webhooks: ReceivedWebhook[] = [];
  await using receiver = await openReceiver((webhook) => webhooks.push(webhook), {
    afterMs: RECEIVER_MS,
  });
  await using server = await PostgresServer.start();
  const place = { program: sourceProgram(), folder: scratch.path };
  const settings = { allowed: `127.0.0.1:${receiver.port}`, more: FILE_FACTS };
  await using cluster = await Cluster.start({ place, url: server.url, nodes: 3, ...settings });
  await using haproxy = await Haproxy.start(cluster.nodes.map(({ daemon }) => daemon.port));
  const { account } = cluster;
  const target = { url: haproxy.url, key: account.key, receiver };
  const client = new SteadyClient({ ...target, files: sampleFiles(ROOT, FILES) });
  const told = storyteller();
  told(`PostgreSQL ${server.major}, three daemons, and ${haproxyName} at ${haproxy.url}.`);

  const ending = new AbortController();
  const posting = client.run(ending);
  // It rejects again where it is awaited below.
  posting.catch(() => {});
  const parts = { server, cluster, client, webhooks, told };
  await killOneDaemon(parts);
  await killDatabase(parts);
  ending.abort();
  await posting;
  await untilReported(parts);
  told("Everything that was acknowledged has been reported.");

  say(`\n${await listNodes(cluster)}`);
  const summary = await checkAll({ target, account, webhooks, hmac, client });
  for (const node of cluster.running) await node.stop();
  say(summary);
}

interface Parts {
  readonly server: PostgresServer;
  readonly cluster: Cluster;
  readonly client: SteadyClient;
  readonly webhooks: readonly ReceivedWebhook[];
  readonly told: (text: string) => void;
}

async function killOneDaemon(parts: Parts): Promise<void> {
  const { cluster, client, webhooks, told } = parts;
  await until(() => webhooks.length >= FIRST_TASKS, {
    msMax: REPORTED_MS_MAX,
    fault: () => `only ${webhooks.length} webhooks arrived: ${cluster.node(0).daemon.log}`,
  });
  told(`${client.posted.length} tasks are posted, ${webhooks.length} webhooks have arrived.`);
  const { node, runs } = await busyNode(cluster);
  await node.kill();
  told(`kill -9 ${node.name}, which ran ${runs} tasks. The client goes on.`);
  await untilReported(parts);
  told("All that was posted before and since has been reported.");
}

async function killDatabase(parts: Parts): Promise<void> {
  const { server, client, told } = parts;
  await server.kill();
  told("kill -9 of PostgreSQL: no task is acknowledged now.");
  await sleep(DATABASE_GONE_MS);
  await server.startAgain();
  const startedAt = performance.now();
  told("PostgreSQL is started again, and finds what it had committed.");
  const acknowledged = client.posted.length;
  await until(() => client.posted.length > acknowledged, {
    msMax: REPORTED_MS_MAX,
    fault: () => "nothing was acknowledged after PostgreSQL was there again",
  });
  const ms = Math.round(performance.now() - startedAt);
  told(`The next tasks are acknowledged ${ms} ms later, by daemons that were not restarted.`);
}

/** Settles when each task that is posted by now has had its webhook. */
async function untilReported({ client, webhooks, cluster }: Parts): Promise<void> {
  const posted = client.posted.slice();
  const missing = (): readonly string[] => {
    const arrived = new Set(webhooks.map(({ taskId }) => taskId));
    return posted.map(({ id }) => id).filter((id) => !arrived.has(id));
  };
  await until(() => missing().length === 0, {
    msMax: REPORTED_MS_MAX,
    fault: () => {
      const logs = cluster.running.map(({ name, daemon }) => `${name}: ${daemon.log}`);
      return `${missing().length} of ${posted.length} tasks were not reported, ${missing()[0]} for one. ${logs.join("\n")}`;
    },
  });
}

interface BusyNode {
  readonly node: ClusterNode;
  readonly runs: number;
}

/** The first that is seen running two tasks. */
async function busyNode(cluster: Cluster): Promise<BusyNode> {
  let busy: BusyNode | undefined;
  const find = (): boolean => {
    const all = cluster.running.map((node) => ({ node, runs: runsOf(node) }));
    busy = all.find(({ runs }) => runs >= 2);
    return busy !== undefined;
  };
  await until(find, { msMax: BUSY_MS_MAX, everyMs: 5, fault: () => "no daemon runs two tasks" });
  assert(busy);
  return busy;
}

/** How many commands it runs: one of its processes starts them. */
function runsOf({ daemon }: ClusterNode): number {
  const all = listProcesses().filter(({ state }) => state !== "Z");
  const starters = all.filter(({ parentPid }) => parentPid === daemon.pid).map(({ pid }) => pid);
  return all.filter(({ parentPid }) => starters.includes(parentPid)).length;
}

async function listNodes({ admin }: Cluster): Promise<string> {
  const { error, stdout } = await runProgram(
    ["admin", "node", "list", "--db", admin.database],
    admin,
  );
  if (error !== null) throw error;
  return `$ postbackd admin node list\n${stdout}`;
}

/** Says things with the seconds that have passed. */
function storyteller(): (text: string) => void {
  const startedAt = performance.now();
  return (text) => {
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    say(`${seconds.padStart(5)} s  ${text}`);
  };
}
