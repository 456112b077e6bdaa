import assert from "node:assert/strict";
import { test } from "node:test";

import { until } from "../../scripts/kit/until.ts";
import { reasonToSkipPostgres, startPostgres } from "../helpers/postgres.ts";
import { claim, outcomesOf } from "../http/worker-requests.ts";
import { keepPosting } from "./posting.ts";
import { openRuns } from "./runs.ts";
import { startCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

// Contract §11.
const ANSWER_MS_MAX = 5000;
const BACK_MS_MAX = 5000;
// What a request and its way take beside, on a machine that is busy.
const SLACK_MS = 2000;

test("kill -9 of PostgreSQL, and its start", { skip, timeout: 240_000 }, async (t) => {
  const postgres = await startPostgres(t);
  const runs = await openRuns(t);
  const worker = `\n[types.x]\nrunner = "worker"\nlease = "5s"\n`;
  const more = `${runs.type("hold")}${worker}`;
  const { cluster, client, at } = await startCluster(t, { url: postgres.url, more });
  const pids = cluster.nodes.map(({ daemon }) => daemon.pid);
  const token = await cluster.createWorker("press", ["x"]);
  const leased = await client.post({ type: "x" });
  const [task] = await claim({ url: cluster.node(0).url, token }, { types: ["x"] });
  assert.ok(task !== undefined);
  const held = await client.post({ type: "hold" });
  const run = await runs.next();
  const posting = keepPosting(cluster.url, cluster.account.key);
  await until(() => posting.acknowledged.length > 100, { msMax: 30_000, fault: () => "no posts" });
  const lease = { id: leased, lease_id: task.lease_id };
  const beat = async (index: number): Promise<string | undefined> => {
    const place = { url: cluster.node(index).url, token };
    const [told] = await outcomesOf(place, "heartbeat", { leases: [lease] });
    return told?.outcome;
  };
  assert.equal(await beat(0), "ok");
  await postgres.kill();
  const diedAt = performance.now();

  await t.test("each answers a post with 50300 within 5 s, and none ends", async () => {
    const askedAt = performance.now();
    const codes = await Promise.all(
      cluster.nodes.map(async (_, i) => {
        const answer = await at(i).call("/v1/tasks/task_post", { method: "POST", body: "[{}]" });
        return ((await answer.json()) as { readonly status_code: number }).status_code;
      }),
    );
    assert.deepEqual(codes, [50300, 50300, 50300]);
    assert.ok(performance.now() - askedAt <= ANSWER_MS_MAX + SLACK_MS);
    assert.ok(cluster.nodes.every(({ isRunning }) => isRunning));
  });

  // Longer than a lease lasts: its worker could not be heard meanwhile.
  await until(() => performance.now() - diedAt > 6000, { msMax: 10_000, fault: () => "no time" });
  await postgres.startAgain();
  const backAt = performance.now();

  await t.test("all work again within 5 s, as the processes that they were", async () => {
    for (const i of cluster.nodes.keys()) {
      await until(async () => (await postsAt(at(i))) === 200, {
        msMax: BACK_MS_MAX + SLACK_MS - (performance.now() - backAt),
        fault: () => `node ${i} takes nothing after ${performance.now() - backAt} ms`,
      });
    }
    assert.deepEqual(
      cluster.nodes.map(({ daemon }) => daemon.pid),
      pids,
    );
  });

  await t.test("a lease is not lost while its worker could not be heard", async () => {
    assert.equal(await beat(1), "ok");
    const completion = { tasks: [{ ...lease, result: 1 }] };
    const [end] = await outcomesOf({ url: cluster.node(2).url, token }, "complete", completion);
    assert.equal(end?.outcome, "ok");
    assert.equal((await client.ended(leased)).runs, 1);
  });

  await t.test(
    "what was acknowledged is there, and nothing was refused but with 50300",
    async () => {
      await posting.stop();
      assert.deepEqual(posting.faults, []);
      assert.ok(posting.slowestMs <= ANSWER_MS_MAX + SLACK_MS, `${posting.slowestMs} ms`);
      const tasks = await Promise.all(posting.acknowledged.map((id) => client.ended(id)));
      assert.deepEqual(new Set(tasks.map(({ state }) => state)), new Set(["completed"]));
    },
  );

  await t.test("a run of a daemon that was out of reach ends once", async () => {
    run.finish();
    const again = await Promise.race([runs.next(), client.ended(held)]);
    if ("finish" in again) again.finish();
    assert.equal((await client.ended(held)).state, "completed");
  });
});

async function postsAt(client: { call: (path: string, init: RequestInit) => Promise<Response> }) {
  const answer = await client.call("/v1/tasks/task_post", {
    method: "POST",
    body: '[{"type":"echo"}]',
  });
  await answer.text();
  return answer.status;
}
