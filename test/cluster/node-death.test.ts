import assert from "node:assert/strict";
import { test } from "node:test";

import { until } from "../../scripts/kit/until.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { createGate, startReceiver } from "../helpers/receiver.ts";
import type { TaskClient } from "../helpers/task-client.ts";
import { claim, outcomesOf } from "../http/worker-requests.ts";
import { openRuns, type HeldRun, type Runs } from "./runs.ts";
import { listNodes, nodeNamed, startCluster } from "./start.ts";

// guarantees.md, "Clusters".
const ELSEWHERE_MS_MAX = 15_000;
// Each node estimates the server's clock, with an error up to the round trip.
const CLOCK_MS = 100;
// So many attempts are in flight that each node has some: a host that has not responded yet gets few.
const [HOSTS, EACH] = [8, 3];
const MORE = `
[webhooks]
retry_after = ["1s"]
timeout = "60s"
[types.x]
runner = "worker"
lease = "60s"
`;

const how = { skip: reasonToSkipPostgres(), timeout: 240_000 };
test("kill -9 of a node, and a node that stands still", how, async (t) => {
  const runs = await openRuns(t);
  const more = `${runs.type("hold", 2)}${MORE}`;
  const { cluster, client } = await startCluster(t, { allowed: "127.0.0.0/8", more });
  const gate = createGate();
  const answer = { kind: "status", status: 204 } as const;
  const reply = { kind: "held", until: gate.opened, reply: answer } as const;
  const receivers = await Promise.all(
    Array.from({ length: HOSTS }, (_, i) => startReceiver(t, { reply, host: `127.0.0.${i + 2}` })),
  );
  const token = await cluster.createWorker("press", ["x"]);
  const leased = await client.post({ type: "x" });

  const started = await startRuns(client, { runs, count: 4 });
  const killed = nodeNamed(cluster, started[0]?.node ?? "");
  const [task] = await claim({ url: killed.url, token }, { types: ["x"] });
  const urls = receivers.flatMap((receiver) => Array.from({ length: EACH }, () => receiver.url()));
  const sent = await Promise.all(
    urls.map((postback_url) => client.post({ type: "echo", postback_url })),
  );
  await Promise.all(receivers.map((receiver) => receiver.waitFor(EACH)));
  await killed.kill();
  const killedAt = Date.now();
  gate.open();
  const lost = started.filter(({ node }) => node === killed.folderName);
  const again = await nextOf(runs, lost.length);

  await t.test("runs of the killed node start at others within 15 s, and no others", async () => {
    assert.deepEqual(idsOf(again), idsOf(lost));
    for (const { node, startedAt } of again) {
      assert.notEqual(node, killed.folderName);
      assert.ok(startedAt - killedAt <= ELSEWHERE_MS_MAX, `${startedAt - killedAt} ms`);
    }
  });

  await t.test(
    "the killed node joins again under its name, and ends no run of others",
    async () => {
      await killed.start();
      const lasting = [...started.filter((run) => !lost.includes(run)), ...again];
      for (const run of lasting) run.finish();
      for (const { id, node } of lasting) {
        const { state, result, runs: count } = await client.ended(id);
        assert.deepEqual([state, result], ["completed", { node }]);
        assert.equal(count, again.some((run) => run.id === id) ? 2 : 1);
      }
    },
  );

  await t.test("attempts of the killed node are interrupted and sent again", async () => {
    const outcomes = await Promise.all(sent.map((id) => outcomesOfDelivery(client, id)));
    const interrupted = outcomes.filter(({ length }) => length > 1);
    assert.ok(interrupted.length > 0, "it sent nothing when it was killed");
    for (const each of interrupted) assert.deepEqual(each, ["interrupted", "delivered"]);
    const arrived = receivers.flatMap(({ requests }) => requests);
    assert.equal(arrived.length, sent.length + interrupted.length);
  });

  await t.test("a lease of the killed node is valid at the others", async () => {
    const other = cluster.nodes.find((node) => node !== killed) ?? assert.fail();
    const place = { url: other.url, token };
    const lease = { id: leased, lease_id: task?.lease_id ?? "" };
    const [beat] = await outcomesOf(place, "heartbeat", { leases: [lease] });
    const [end] = await outcomesOf(place, "complete", { tasks: [{ ...lease, result: 1 }] });
    assert.deepEqual([beat?.outcome, end?.outcome], ["ok", "ok"]);
    assert.equal((await client.ended(leased)).runs, 1);
  });

  await t.test("a node that stood still ends its runs, which count nothing", async () => {
    const busy = await startRuns(client, { runs, count: 6 });
    const paused = cluster.node(0);
    const own = busy.filter(({ node }) => node === paused.folderName);
    assert.equal(own.length, 2, "each node runs two");
    paused.pause();
    const pausedAt = Date.now();
    for (const run of busy) if (!own.includes(run)) run.finish();
    const taken = await nextOf(runs, own.length);
    assert.deepEqual(idsOf(taken), idsOf(own));
    for (const { startedAt } of taken) assert.ok(startedAt - pausedAt <= ELSEWHERE_MS_MAX);

    const filling = await startRuns(client, { runs, count: 2 });
    // The others have no slot left for it.
    await client.post({ type: "hold" });
    paused.resume();
    await Promise.all(own.map(({ ended }) => ended));
    const next = await runs.next();
    const nodes = await listNodes(cluster);
    const [life] = nodes.filter(({ name, ended_at }) => name === paused.name && ended_at === null);
    const joinedAt = Date.parse(life?.joined_at ?? assert.fail(JSON.stringify(nodes)));
    assert.equal(next.node, paused.folderName);
    assert.ok(joinedAt > pausedAt);
    assert.ok(next.startedAt >= joinedAt - CLOCK_MS, `${next.startedAt} and ${joinedAt}`);
    for (const run of [...taken, ...filling, next]) run.finish();
    for (const { id, node } of taken) {
      const { state, result, runs: count } = await client.ended(id);
      assert.deepEqual([state, result, count], ["completed", { node }, 2]);
    }
  });
});

/** Posts so many tasks of the type `hold`, and returns their runs when all have started. */
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

interface ShownDelivery {
  readonly state: string;
  readonly attempts: readonly { readonly outcome: string | null }[];
}

/** The outcome of each attempt of a task's only delivery, once it is delivered. */
async function outcomesOfDelivery(client: TaskClient, id: string): Promise<readonly string[]> {
  let delivery: ShownDelivery | undefined;
  const isDelivered = async (): Promise<boolean> => {
    const response = await client.call(`/v1/tasks/deliveries/${id}`);
    const { deliveries } = (await response.json()) as { readonly deliveries: ShownDelivery[] };
    [delivery] = deliveries;
    return delivery?.state === "delivered";
  };
  const fault = (): string => `the delivery of ${id} is ${delivery?.state}`;
  await until(isDelivered, { msMax: ELSEWHERE_MS_MAX, fault });
  return delivery?.attempts.map(({ outcome }) => outcome ?? "none") ?? [];
}
