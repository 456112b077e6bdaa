import assert from "node:assert/strict";
import { test } from "node:test";

import type { Cluster, ClusterNode } from "../../scripts/kit/cluster.ts";
import { until } from "../../scripts/kit/until.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import type { TaskClient } from "../helpers/task-client.ts";
import { claim, outcomesOf } from "../http/worker-requests.ts";
import { openRuns, type HeldRun, type Runs } from "./runs.ts";
import { listNodes, nodeNamed, startCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

// Contract §11.
const ELSEWHERE_MS_MAX = 15_000;
// The nodes' clock is a guess of the server's, right to its round trip.
const CLOCK_MS = 100;
// So many attempts are in flight at once that no node can be without any. To a host that has not answered yet a few go.
const [HOSTS, EACH] = [8, 3];
const RETRIES = `\n[webhooks]\nretry_after = ["1s"]\ntimeout = "60s"\n`;

test("kill -9 of a daemon", { skip, timeout: 240_000 }, async (t) => {
  const runs = await openRuns(t);
  const worker = `\n[types.x]\nrunner = "worker"\nlease = "60s"\n`;
  const { cluster, client, at } = await startCluster(t, {
    allowed: "127.0.0.0/8",
    more: `${runs.type("hold", 2)}${worker}${RETRIES}`,
  });
  const gate = createGate();
  const answer = { kind: "status", status: 204 } as const;
  const reply = { kind: "held", until: gate.opened, reply: answer } as const;
  const receivers = await Promise.all(
    Array.from({ length: HOSTS }, (_, i) => startReceiver(t, { reply, host: `127.0.0.${i + 2}` })),
  );
  const token = await cluster.createWorker("press", ["x"]);
  const leased = await client.post({ type: "x" });

  const started = await startRuns(client, { runs, count: 4 });
  const victim = nodeNamed(cluster, started[0]?.node ?? "");
  const [task] = await claim({ url: victim.url, token }, { types: ["x"] });
  const urls = receivers.flatMap((receiver) => Array.from({ length: EACH }, () => receiver.url()));
  const sent = await Promise.all(
    urls.map((postback_url) => client.post({ type: "echo", postback_url })),
  );
  await Promise.all(receivers.map((receiver) => receiver.waitFor(EACH)));
  await victim.kill();
  const killedAt = Date.now();
  gate.open();
  const lost = started.filter(({ node }) => node === victim.folderName);
  const again = await nextOf(runs, lost.length);

  await t.test("its runs start at others within 15 s, and no other run starts again", async () => {
    assert.deepEqual(idsOf(again), idsOf(lost));
    for (const { node, startedAt } of again) {
      assert.notEqual(node, victim.folderName);
      assert.ok(startedAt - killedAt <= ELSEWHERE_MS_MAX, `${startedAt - killedAt} ms`);
    }
    const whole = [...started.filter((run) => !lost.includes(run)), ...again];
    for (const run of whole) run.finish();
    for (const { id, node } of whole) {
      const { state, result, runs: count } = await client.ended(id);
      assert.deepEqual([state, result], ["completed", { node }]);
      assert.equal(count, again.some((run) => run.id === id) ? 2 : 1);
    }
  });

  await t.test("what it was sending is on record as interrupted, and sent again", async () => {
    const series = await Promise.all(sent.map((id) => deliveredSeries(client, id)));
    const interrupted = series.filter((outcomes) => outcomes.length > 1);
    assert.ok(interrupted.length > 0, "it sent nothing when it was killed");
    for (const outcomes of interrupted) assert.deepEqual(outcomes, ["interrupted", "delivered"]);
    const rest = series.filter((outcomes) => outcomes.length === 1);
    assert.ok(rest.every(([outcome]) => outcome === "delivered"));
    const arrived = receivers.flatMap(({ requests }) => requests);
    assert.equal(arrived.length, sent.length + interrupted.length);
  });

  await t.test("a lease that it gave out is held at the others", async () => {
    const [next] = cluster.running.map(({ url }) => ({ url, token }));
    assert.ok(next !== undefined && task !== undefined);
    const lease = { id: leased, lease_id: task.lease_id };
    const [beat] = await outcomesOf(next, "heartbeat", { leases: [lease] });
    assert.equal(beat?.outcome, "ok");
    const [end] = await outcomesOf(next, "complete", { tasks: [{ ...lease, result: 1 }] });
    assert.equal(end?.outcome, "ok");
    assert.equal((await client.ended(leased)).runs, 1);
  });

  await t.test("it joins again under its name", async () => {
    await victim.start();
    const id = await at(cluster.nodes.indexOf(victim)).post({ type: "echo" });
    assert.equal((await client.ended(id)).state, "completed");
  });
});

test("a daemon that stood still for longer than it may", { skip, timeout: 240_000 }, async (t) => {
  const runs = await openRuns(t);
  const { cluster, client } = await startCluster(t, { more: runs.type("hold", 1) });
  // One run at each node.
  const started = await startRuns(client, { runs, count: 3 });
  const victim = cluster.node(0);
  const own = started.find(({ node }) => node === victim.folderName) ?? assert.fail();
  victim.pause();
  const pausedAt = Date.now();
  for (const run of started) if (run !== own) run.finish();
  const again = await runs.next();

  await t.test("its run starts at another within 15 s, while it stands still", () => {
    assert.equal(again.id, own.id);
    assert.notEqual(again.node, own.node);
    assert.ok(again.startedAt - pausedAt <= ELSEWHERE_MS_MAX, `${again.startedAt - pausedAt} ms`);
  });

  await t.test(
    "when it goes on, it ends its run, and starts the next once it has joined again",
    async () => {
      const [other] = await startRuns(client, { runs, count: 1 });
      // The others have no place for it.
      await client.post({ type: "hold" });
      victim.resume();
      await own.ended;
      const next = await runs.next();
      assert.equal(next.node, victim.folderName);
      const joinedAt = await joinedAtOf(cluster, victim);
      assert.ok(joinedAt > pausedAt);
      assert.ok(next.startedAt >= joinedAt - CLOCK_MS, `${next.startedAt} and ${joinedAt}`);
      for (const run of [again, other, next]) run?.finish();
    },
  );

  await t.test("the result of the run that was taken from it counts for nothing", async () => {
    const { state, result, runs: count } = await client.ended(own.id);
    assert.deepEqual([state, result, count], ["completed", { node: again.node }, 2]);
  });
});

/** Posts so many tasks of the type `hold`, and answers their runs as soon as all have started. */
async function startRuns(
  client: TaskClient,
  { runs, count }: { readonly runs: Runs; readonly count: number },
): Promise<readonly HeldRun[]> {
  for (let i = 0; i < count; i++) await client.post({ type: "hold" });
  return nextOf(runs, count);
}

function nextOf(runs: Runs, count: number): Promise<readonly HeldRun[]> {
  return Promise.all(Array.from({ length: count }, () => runs.next()));
}

function idsOf(runs: readonly HeldRun[]): readonly string[] {
  return runs.map(({ id }) => id).toSorted();
}

interface ShownSeries {
  readonly state: string;
  readonly attempts: readonly { readonly outcome: string | null }[];
}

/** How each attempt of a task's only delivery ended, as soon as it is delivered. */
async function deliveredSeries(client: TaskClient, id: string): Promise<readonly string[]> {
  let series: ShownSeries | undefined;
  const isDelivered = async (): Promise<boolean> => {
    const response = await client.call(`/v1/tasks/deliveries/${id}`);
    const { deliveries } = (await response.json()) as { readonly deliveries: ShownSeries[] };
    [series] = deliveries;
    return series?.state === "delivered";
  };
  const fault = (): string => `the delivery of ${id} is ${series?.state}`;
  await until(isDelivered, { msMax: ELSEWHERE_MS_MAX, fault });
  return series?.attempts.map(({ outcome }) => outcome ?? "none") ?? [];
}

/** When the newest life of a node began, which must not have ended. */
async function joinedAtOf(cluster: Cluster, { name }: ClusterNode): Promise<number> {
  const nodes = await listNodes(cluster);
  const [own] = nodes.filter((node) => node.name === name && node.ended_at === null);
  return Date.parse(own?.joined_at ?? assert.fail(JSON.stringify(nodes)));
}
