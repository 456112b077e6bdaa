import assert from "node:assert/strict";
import { test } from "node:test";

import type { Cluster } from "../../scripts/kit/cluster.ts";
import { until } from "../../scripts/kit/until.ts";
import { countConnections } from "../../scripts/soak/cluster.ts";
import { reasonToSkipPostgres, startPostgres } from "../helpers/postgres.ts";
import type { TaskClient } from "../helpers/task-client.ts";
import { keepPosting, notBroken } from "./posting.ts";
import { listNodes, startCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

// As docs/scaling.md says of daemons with notifications.
const CONNECTIONS = 8;

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
    // The older one hears of the newer one up to a heartbeat later.
    await cluster.grow(1);
    const own = at(0);
    const stopped = cluster.node(0).stop();
    const isReady = async (): Promise<boolean> => (await own.call("/readyz")).status === 200;
    const fault = (): string => "it says that it is ready";
    await until(async () => !(await isReady()), { msMax: 5000, fault });
    const id = await own.post({ type: "echo" });
    assert.equal((await at(1).ended(id)).state, "completed");
    await stopped;
  },
);

test("nine daemons join at once and leave at once", { skip, timeout: 240_000 }, async (t) => {
  const postgres = await startPostgres(t);
  const { cluster, client, at } = await startCluster(t, { nodes: 1, url: postgres.url });
  const posting = keepPosting(cluster.url, cluster.account.key);
  const others = await cluster.grow(9);

  await t.test("each of them is one of ten, and has 8 connections at most", async () => {
    const fault = (): string => "they do not all see one another";
    await until(async () => (await aliveNodes(cluster)) === 10, { msMax: 30_000, fault });
    const most = new Map<string, number>();
    const isMore = async (): Promise<boolean> => {
      // Long reads and posts, of which each daemon has two under way at once.
      const asked = cluster.nodes.flatMap((_, index) =>
        [1, 2, 3].flatMap(() => [list(at(index)), at(index).post({ type: "echo" })]),
      );
      for (const [name, count] of await countConnections(postgres)) {
        most.set(name, Math.max(count, most.get(name) ?? 0));
      }
      await Promise.all(asked);
      const isUsed = Math.max(...most.values()) >= CONNECTIONS;
      return isUsed && posting.acknowledged.length > before + 20;
    };
    const before = posting.acknowledged.length;
    await until(isMore, {
      msMax: 30_000,
      fault: () => `no posts, or none uses all: ${JSON.stringify([...most])}`,
    });
    assert.deepEqual([most.size, Math.max(...most.values())], [10, CONNECTIONS]);
  });

  await t.test("all but one leave, and no post is refused", async () => {
    const logs = others.map(({ daemon }) => daemon);
    await Promise.all(others.map((node) => node.stop()));
    await posting.stop();
    assert.deepEqual([notBroken(posting.faults), posting.refused], [[], 0]);
    for (const { log } of logs) assert.ok(!log.includes('"level":"error"'), log);
    // One that could not say in time that it leaves counts as alive for 10 s.
    const fault = (): string => "more than one is there";
    await until(async () => (await aliveNodes(cluster)) === 1, { msMax: 30_000, fault });
    const tasks = await Promise.all(posting.acknowledged.map((id) => client.ended(id)));
    assert.deepEqual(new Set(tasks.map(({ state }) => state)), new Set(["completed"]));
  });
});

async function list(client: TaskClient): Promise<void> {
  const answer = await client.call("/v1/tasks?limit=100");
  assert.equal(answer.status, 200, await answer.text());
}

/** How many nodes have not ended, as the command line lists them. */
async function aliveNodes(cluster: Cluster): Promise<number> {
  const nodes = await listNodes(cluster);
  return nodes.filter(({ ended_at: endedAt }) => endedAt === null).length;
}
