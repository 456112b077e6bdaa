import assert from "node:assert/strict";
import { test } from "node:test";

import type { Cluster } from "../../scripts/kit/cluster.ts";
import { until } from "../../scripts/kit/until.ts";
import { countConnections } from "../../scripts/soak/cluster.ts";
import { findFreePort } from "../helpers/port.ts";
import { reasonToSkipPostgres, startPostgres } from "../helpers/postgres.ts";
import { keepPosting, notBroken } from "./posting.ts";
import { listNodes, startCluster } from "./start.ts";

const how = { skip: reasonToSkipPostgres(), timeout: 240_000 };

// As docs/guides/postgres-cluster.md says of daemons with notifications.
const CONNECTIONS = 8;

test("four nodes join a fifth at the same time, and leave together", how, async (t) => {
  const postgres = await startPostgres(t);
  const metricsPort = await findFreePort();
  const flagsOf = (index: number) => (index === 0 ? ["--metrics", `127.0.0.1:${metricsPort}`] : []);
  const started = await startCluster(t, { nodes: 1, url: postgres.url, flagsOf });
  const { cluster, client, at } = started;
  const posting = keepPosting(cluster.url, cluster.account.key);
  const others = await cluster.grow(4);

  await t.test("each node is a member, and has 8 connections at most", async () => {
    await untilAlive(cluster, 5);
    const most = new Map<string, number>();
    const before = posting.acknowledged.length;
    for (let round = 0; round < 20; round++) {
      // A daemon has two long reads and two posts in progress at the same time.
      const requests = cluster.nodes.flatMap((_, index) =>
        [1, 2, 3].flatMap(() => [
          at(index).call("/v1/tasks?limit=100"),
          at(index).post({ type: "echo" }),
        ]),
      );
      for (const [name, count] of await countConnections(postgres))
        most.set(name, Math.max(count, most.get(name) ?? 0));
      await Promise.all(requests);
    }
    const isPosted = () => posting.acknowledged.length > before + 20;
    await until(isPosted, { msMax: 30_000, fault: () => "no posts" });
    assert.equal(most.size, 5);
    assert.ok(Math.max(...most.values()) <= CONNECTIONS, JSON.stringify([...most]));
  });

  await t.test("the metrics of a node count all nodes, and its own roles", async () => {
    let text = "";
    const isCounted = async (): Promise<boolean> => {
      text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      return text.includes("\npostbackd_nodes 5\n");
    };
    await until(isCounted, { msMax: 30_000, fault: () => text });
    assert.match(text, /^postbackd_build_info\{.*database="postgres"\} 1$/m);
    assert.match(text, /^postbackd_tasks\{state="completed"\} [1-9]/m);
    assert.match(text, /^postbackd_node_role\{role="\w+"\} [01]$/m);
  });

  await t.test("a node that stops is not ready before it refuses a post", async () => {
    const [first] = others;
    assert.ok(first !== undefined);
    const own = at(1);
    const stopped = first.stop();
    const isReady = async (): Promise<boolean> => (await own.call("/readyz")).status === 200;
    await until(async () => !(await isReady()), { msMax: 5000, fault: () => "it is ready" });
    const id = await own.post({ type: "echo" });
    assert.equal((await at(0).ended(id)).state, "completed");
    await stopped;
  });

  await t.test("all but one leave, no post is refused, and every task ends", async () => {
    const rest = others.slice(1);
    const logs = rest.map(({ daemon }) => daemon);
    await Promise.all(rest.map((node) => node.stop()));
    await posting.stop();
    assert.deepEqual([notBroken(posting.faults), posting.seen.refused], [[], 0]);
    for (const { log } of logs) assert.ok(!log.includes('"level":"error"'), log);
    // A node that could not say in time that it leaves counts as alive for 10 s.
    await untilAlive(cluster, 1);
    const tasks = await Promise.all(posting.acknowledged.map((id) => client.ended(id)));
    assert.deepEqual(new Set(tasks.map(({ state }) => state)), new Set(["completed"]));
  });
});

/** Settles when the command line lists so many nodes that have not ended. */
async function untilAlive(cluster: Cluster, count: number): Promise<void> {
  let alive = 0;
  const isSo = async (): Promise<boolean> => {
    const nodes = await listNodes(cluster);
    alive = nodes.filter(({ ended_at: endedAt }) => endedAt === null).length;
    return alive === count;
  };
  await until(isSo, { msMax: 30_000, fault: () => `${alive} nodes are alive` });
}
