import assert from "node:assert/strict";
import { test } from "node:test";

import { until } from "../../scripts/kit/until.ts";
import { reasonToSkipPostgres, startPostgres } from "../helpers/postgres.ts";
import type { TaskClient } from "../helpers/task-client.ts";
import { claim, outcomesOf } from "../http/worker-requests.ts";
import { keepPosting } from "./posting.ts";
import { openRuns } from "./runs.ts";
import { startCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

// guarantees.md, "Clusters", and what a request takes in addition on a busy machine.
const RESPONSE_MS_MAX = 5000 + 2000;
const BACK_MS_MAX = 5000 + 2000;

test("kill -9 of PostgreSQL, and its start", { skip, timeout: 240_000 }, async (t) => {
  const postgres = await startPostgres(t);
  const runs = await openRuns(t);
  const more = `${runs.type("hold")}\n[types.x]\nrunner = "worker"\nlease = "5s"\n`;
  const { cluster, client, at } = await startCluster(t, { nodes: 2, url: postgres.url, more });
  const pids = cluster.nodes.map(({ daemon }) => daemon.pid);
  const token = await cluster.createWorker("press", ["x"]);
  const place = (index: number) => ({ url: cluster.node(index).url, token });
  const leased = await client.post({ type: "x" });
  const [task] = await claim(place(0), { types: ["x"] });
  assert.ok(task !== undefined);
  const held = await client.post({ type: "hold" });
  const run = await runs.next();
  const posting = keepPosting(cluster.url, cluster.account.key);
  await until(() => posting.acknowledged.length > 100, { msMax: 30_000, fault: () => "no posts" });
  const lease = { id: leased, lease_id: task.lease_id };
  await postgres.kill();
  const diedAt = performance.now();

  await t.test("each node responds to a post with 50300 within 5 s, and none ends", async () => {
    const codes = await Promise.all([codeOfPost(at(0)), codeOfPost(at(1))]);
    assert.deepEqual(codes, [50300, 50300]);
    assert.ok(performance.now() - diedAt <= RESPONSE_MS_MAX);
    assert.ok(cluster.nodes.every(({ isRunning }) => isRunning));
  });

  // Longer than the lease lasts.
  await until(() => performance.now() - diedAt > 6000, { msMax: 10_000, fault: () => "no time" });
  await postgres.startAgain();
  const backAt = performance.now();

  await t.test("both nodes work again within 5 s, as the same processes", async () => {
    for (const i of cluster.nodes.keys()) {
      await until(async () => (await codeOfPost(at(i))) === 20000, {
        msMax: BACK_MS_MAX - (performance.now() - backAt),
        fault: () => `node ${i} takes no post after ${performance.now() - backAt} ms`,
      });
    }
    const nowPids = cluster.nodes.map(({ daemon }) => daemon.pid);
    assert.deepEqual(nowPids, pids);
  });

  await t.test("a lease survives the outage, and the other node completes it", async () => {
    const [beat] = await outcomesOf(place(0), "heartbeat", { leases: [lease] });
    const [end] = await outcomesOf(place(1), "complete", { tasks: [{ ...lease, result: 1 }] });
    assert.deepEqual([beat?.outcome, end?.outcome], ["ok", "ok"]);
    assert.equal((await client.ended(leased)).runs, 1);
  });

  await t.test("no acknowledged task is lost, and each refusal is 50300", async () => {
    await posting.stop();
    assert.deepEqual(posting.faults, []);
    assert.ok(posting.seen.slowestMs <= RESPONSE_MS_MAX, `${posting.seen.slowestMs} ms`);
    const tasks = await Promise.all(posting.acknowledged.map((id) => client.ended(id)));
    assert.deepEqual(new Set(tasks.map(({ state }) => state)), new Set(["completed"]));
  });

  await t.test("a run of a node that could not reach the server ends once", async () => {
    run.finish();
    const again = await Promise.race([runs.next(), client.ended(held)]);
    if ("finish" in again) again.finish();
    assert.equal((await client.ended(held)).state, "completed");
  });
});

async function codeOfPost(client: TaskClient): Promise<number> {
  const body = '[{"type":"echo"}]';
  const response = await client.call("/v1/tasks/task_post", { method: "POST", body });
  return ((await response.json()) as { readonly status_code: number }).status_code;
}
