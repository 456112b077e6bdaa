import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test, type TestContext } from "node:test";

import fc from "fast-check";

import { findFaults } from "../../scripts/kit/postgres-faults.ts";
import { openWork } from "../../scripts/soak/cluster-verdict.ts";
import type { Store } from "../../src/store/store.ts";
import { eventually, openNode } from "../helpers/postgres-nodes.ts";
import { newDatabaseUrl, reasonToSkipPostgres } from "../helpers/postgres.ts";
import { startReceiver } from "../helpers/receiver.ts";
import {
  claim,
  outcomesOf,
  type Called,
  type ClaimedTask,
  type WorkerOperation,
} from "../http/worker-requests.ts";
import { startCluster, type StartedCluster } from "./start.ts";

const how = { skip: reasonToSkipPostgres(), timeout: 240_000 };

const NODES = 3;
const SEED = 20_261_123;
// Lives are begun for so long, and there are no more than these.
const MS = 12_000;
const LIVES_MAX = 40;
const PATIENCE_MS = 60_000;

const MORE = `
[webhooks]
retry_after = ["1s", "1s", "1s"]
[types.x]
runner = "worker"
lease = "60s"
`;

test(
  "whatever happens at three daemons, each task ends once, as it was told to, and all counts are right",
  how,
  async (t) => {
    const world = await openWorld(t);
    const property = fc.asyncProperty(lives, async (rounds) => {
      const life = newLife(world);
      for (const steps of rounds) await Promise.all(steps.map((each) => take(life, each)));
      await comeToRest(life);
      assert.deepEqual(await findFaults(world.url, { erases: true }), []);
      for (const task of life.tasks.values()) await requireEnd(life, task);
    });
    const begunAt = performance.now();
    let seed = SEED;
    for (; seed < SEED + LIVES_MAX && performance.now() - begunAt < MS; seed++)
      await fc.assert(property, { seed, numRuns: 1, endOnFailure: true });
    t.diagnostic(`${seed - SEED} lives, ${JSON.stringify(Object.fromEntries(world.seen))}`);
  },
);

/** Three daemons, who erases beside them, and a receiver of webhooks that fails now and then. */
async function openWorld(t: TestContext) {
  const url = await newDatabaseUrl(t);
  const started = await startCluster(t, { url, nodes: NODES, more: MORE });
  const token = await started.cluster.createWorker("press", ["x"]);
  const store = await openNode(t, url, { kind: "tool", beatMs: 2000 });
  const reply = (_: unknown, index: number) =>
    ({ kind: "status", status: index % 5 === 0 ? 500 : 204 }) as const;
  const receiver = await startReceiver(t, { reply });
  const seen = new Map<string, number>();
  return { ...started, url, token, store, hook: receiver.url(), seen };
}

interface World extends StartedCluster {
  readonly url: string;
  readonly token: string;
  readonly store: Store;
  readonly hook: string;
  /** How often each step had an effect. */
  readonly seen: Map<string, number>;
}

/** A task that was acknowledged, and what was promised of it. */
interface PostedTask {
  readonly id: string;
  isErased: boolean;
  isCancelled: boolean;
  /** The lease whose completion a worker was thanked for; it is the result, too. */
  completedBy: string | null;
}

interface Life {
  /** Begins its idempotency keys. */
  readonly name: string;
  readonly world: World;
  readonly tasks: Map<string, PostedTask>;
  readonly leases: ClaimedTask[];
  readonly waits: Promise<unknown>[];
  /** What was answered to each idempotency key. */
  readonly answers: Map<number, string>;
}

const newLife = (world: World): Life => {
  return { name: randomUUID(), world, tasks: new Map(), leases: [], waits: [], answers: new Map() };
};

/** Where a step is taken, and what picks its task, lease or key. */
interface Place {
  readonly node: number;
  readonly pick: number;
}

type Take = (life: Life, place: Place) => Promise<boolean>;

/** Everything that happens. Each answers whether it had an effect. */
const STEPS = {
  async post({ world, tasks }, { node, pick }) {
    const own = pick % 2 === 0 ? { postback_url: world.hook } : {};
    const type = pick % 3 === 0 ? "echo" : "x";
    const startAt = new Date(Date.now() + 300).toISOString();
    const id = await world
      .at(node)
      .post({ type, input: pick, ...own, ...(pick % 5 === 0 && { start_at: startAt }) });
    keep(tasks, id);
    return true;
  },

  async postOnce({ name, world, tasks, answers }, { node, pick }) {
    const key = pick % 3;
    const answer = await world.at(node).call("/v1/tasks/task_post", {
      method: "POST",
      headers: { "idempotency-key": `${name}-${key}` },
      body: JSON.stringify([
        { type: "echo", input: key },
        { type: "x", input: key },
      ]),
    });
    const text = await textOf(answer);
    const ids = idsIn(text);
    assert.equal(ids.length, 2, text);
    assert.equal(
      ids.join(),
      answers.get(key) ?? ids.join(),
      "a key stands for the tasks of one post",
    );
    for (const id of ids) if (!tasks.has(id)) keep(tasks, id);
    answers.set(key, ids.join());
    return true;
  },

  async claim({ world, leases }, { node, pick }) {
    const claimed = await claim(asked(world, node), { types: ["x"], max: 1 + (pick % 3) });
    leases.push(...claimed);
    return claimed.length > 0;
  },

  beat: (life, place) => toLease(life, place, "heartbeat"),
  release: (life, place) => toLease(life, place, "release"),
  fail: (life, place) => toLease(life, place, "fail"),
  complete: (life, place) => toLease(life, place, "complete"),

  async cancel({ world, tasks }, { node, pick }) {
    const task = pickOf([...tasks.values()], pick);
    if (task === undefined) return false;
    const path = `/v1/tasks/task_cancel/${task.id}`;
    const answer = await world.at(node).call(path, { method: "POST" });
    await textOf(answer);
    if (answer.status === 200) task.isCancelled = true;
    return answer.status === 200;
  },

  // What follows does not wait for it.
  async wait({ world, tasks, waits }, { node, pick }) {
    const id = pickOf([...tasks.keys()], pick);
    if (id === undefined) return false;
    const path = `/v1/tasks/task_get/${id}?collect=false`;
    waits.push(
      world
        .at(node)
        .call(path, { headers: { prefer: "wait=1" } })
        .then(textOf),
    );
    return true;
  },

  async erase({ world, tasks }, { pick }) {
    const task = pickOf([...tasks.values()], pick);
    if (task === undefined || pick % 4 !== 0) return false;
    const outcome = await world.store.eraseTask({ id: task.id, hasWebhooks: true });
    task.isErased ||= outcome === "erased";
    return outcome === "erased";
  },
} satisfies Record<string, Take>;

// The table's own keys.
const kinds = Object.keys(STEPS) as (keyof typeof STEPS)[];
const step = fc.record({
  kind: fc.constantFrom(...kinds, "post", "post", "claim"),
  node: fc.nat(NODES - 1),
  pick: fc.nat(1000),
});
const lives = fc.array(fc.array(step, { minLength: 8, maxLength: 24, size: "max" }), {
  minLength: 6,
  maxLength: 12,
  size: "max",
});

async function take(life: Life, { kind, ...place }: Place & { readonly kind: keyof typeof STEPS }) {
  const { seen } = life.world;
  if (await STEPS[kind](life, place)) seen.set(kind, (seen.get(kind) ?? 0) + 1);
}

/** A worker tells something of a lease that it has or had. Answers whether that was taken. */
async function toLease(
  { world, tasks, leases }: Life,
  { node, pick }: Place,
  operation: WorkerOperation,
): Promise<boolean> {
  const lease = pickOf(leases, pick);
  if (lease === undefined) return false;
  const { id, lease_id } = lease;
  const more = { complete: { result: lease_id }, fail: { message: "No.", retry: false } };
  const item = { id, lease_id, ...(operation in more && more[operation as keyof typeof more]) };
  const list = operation === "heartbeat" ? "leases" : "tasks";
  const [told] = await outcomesOf(asked(world, node), operation, { [list]: [item] });
  const isTaken = told?.outcome === "ok";
  const task = tasks.get(id);
  if (isTaken && operation === "complete" && task !== undefined) task.completedBy = lease_id;
  return isTaken;
}

/** Ends what nobody has ended, and waits until nothing is left to do. */
async function comeToRest(life: Life): Promise<void> {
  const { world, leases, waits } = life;
  await Promise.all(waits);
  const isDone = async (): Promise<boolean> => {
    for (const pick of leases.keys()) await STEPS.complete(life, { node: pick % NODES, pick });
    leases.length = 0;
    await STEPS.claim(life, { node: 0, pick: 2 });
    return leases.length === 0 && (await openWork(world.url)) === 0;
  };
  await eventually("everything is done", isDone, PATIENCE_MS);
}

async function requireEnd({ world }: Life, task: PostedTask): Promise<void> {
  if (task.isErased) return;
  const { id, isCancelled, completedBy } = task;
  const { type, state, result } = await world.at(0).get(id);
  const ends = isCancelled
    ? ["cancelled"]
    : type === "echo"
      ? ["completed"]
      : ["completed", "failed"];
  assert.ok(ends.includes(state), `${id} is ${state}, not ${ends.join(" or ")}`);
  if (completedBy !== null) assert.deepEqual([state, result], ["completed", completedBy], id);
}

function keep(tasks: Map<string, PostedTask>, id: string): void {
  assert.ok(!tasks.has(id), "a task is posted once");
  tasks.set(id, { id, isErased: false, isCancelled: false, completedBy: null });
}

const asked = ({ cluster, token }: World, node: number): Called => {
  return { url: cluster.node(node).url, token };
};

const pickOf = <Value>(values: readonly Value[], pick: number): Value | undefined =>
  values[pick % Math.max(1, values.length)];

/** Of an answer that is no fault of a daemon's. */
async function textOf(answer: Response): Promise<string> {
  const text = await answer.text();
  assert.ok(answer.status < 500, text);
  return text;
}

const idsIn = (text: string): readonly string[] =>
  (JSON.parse(text) as { readonly tasks: readonly { readonly id: string }[] }).tasks.map(
    ({ id }) => id,
  );
