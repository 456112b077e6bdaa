import assert from "node:assert/strict";
import { test } from "node:test";

import pg from "pg";

import type { Cluster } from "../../scripts/kit/cluster.ts";
import { until } from "../../scripts/kit/until.ts";
import { afterwards } from "../helpers/afterwards.ts";
import { reasonToSkipPostgres, startPostgres } from "../helpers/postgres.ts";
import { keepPosting, notBroken } from "./posting.ts";
import { listNodes, startCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

// As docs/scaling.md says of daemons with notifications.
const CONNECTIONS_MAX = 8;

test(
  "daemons restart one after the other under load, and no post is refused",
  { skip, timeout: 240_000 },
  async (t) => {
    const { cluster, client } = await startCluster(t);
    const posting = keepPosting(cluster.url, cluster.account.key);
    for (const node of cluster.nodes) {
      const before = posting.acknowledged.length;
      const fault = (): string => `no posts while all run: ${posting.faults[0]}`;
      await until(() => posting.acknowledged.length > before + 20, { msMax: 30_000, fault });
      await node.stop();
      await node.start();
    }
    await posting.stop();
    assert.deepEqual(
      [notBroken(posting.faults), posting.refused, cluster.balancer.refused],
      [[], 0, 0],
    );
    const tasks = await Promise.all(posting.acknowledged.map((id) => client.ended(id)));
    assert.deepEqual(
      new Set(tasks.map(({ state, runs }) => `${state} ${runs}`)),
      new Set(["completed 1"]),
    );
  },
);

test(
  "a daemon that stops says so before it refuses anything",
  { skip, timeout: 240_000 },
  async (t) => {
    const { cluster, at } = await startCluster(t, { nodes: 1 });
    // The newer one knows of the other; that one may hear of it up to a heartbeat later.
    await cluster.grow(1);
    const own = at(1);
    const stopped = cluster.node(1).stop();
    const isReady = async (): Promise<boolean> => (await own.call("/readyz")).status === 200;
    const fault = (): string => "it says that it is ready";
    await until(async () => !(await isReady()), { msMax: 5000, fault });
    const id = await own.post({ type: "echo" });
    assert.equal((await at(0).ended(id)).state, "completed");
    await stopped;
  },
);

test("nine daemons join at once and leave at once", { skip, timeout: 240_000 }, async (t) => {
  const postgres = await startPostgres(t);
  const { cluster, client } = await startCluster(t, { nodes: 1, url: postgres.url });
  const posting = keepPosting(cluster.url, cluster.account.key);
  const others = await cluster.grow(9);
  const database = new pg.Client(postgres.url);
  await database.connect();
  afterwards(t, () => database.end());

  await t.test("each of them is one of ten, with at most 8 connections", async () => {
    const fault = (): string => "they do not all see one another";
    await until(async () => (await aliveNodes(cluster)) === 10, { msMax: 30_000, fault });
    const { rows } = await database.query<{ count: number }>(CONNECTIONS);
    assert.ok((rows[0]?.count ?? 0) <= 10 * CONNECTIONS_MAX, `${rows[0]?.count}`);
    const before = posting.acknowledged.length;
    await until(() => posting.acknowledged.length > before + 20, {
      msMax: 30_000,
      fault: () => "no posts while all run",
    });
  });

  await t.test("all but one leave, and no post is refused", async () => {
    const logs = others.map(({ daemon }) => daemon);
    await Promise.all(others.map((node) => node.stop()));
    await posting.stop();
    assert.deepEqual([notBroken(posting.faults), posting.refused], [[], 0]);
    for (const { log } of logs) assert.ok(!log.includes('"level":"error"'), log);
    assert.equal(await aliveNodes(cluster), 1);
    const tasks = await Promise.all(posting.acknowledged.map((id) => client.ended(id)));
    assert.deepEqual(new Set(tasks.map(({ state }) => state)), new Set(["completed"]));
  });
});

// Without those of commands that may have ended a moment ago, and of this test.
const CONNECTIONS = `
  SELECT count(*)::int AS count FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name LIKE 'postbackd%'`;

/** How many nodes have not ended, as the command line lists them. */
async function aliveNodes(cluster: Cluster): Promise<number> {
  const nodes = await listNodes(cluster);
  return nodes.filter(({ ended_at: endedAt }) => endedAt === null).length;
}
