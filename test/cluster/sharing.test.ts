import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { runProgram } from "../../scripts/kit/daemon.ts";
import { spreadOf } from "../../scripts/kit/measure.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { openEvents } from "../http/event-stream.ts";
import { claim, outcomesOf, type ShownOutcome } from "../http/worker-requests.ts";
import { openRuns, type Runs } from "./runs.ts";
import { startCluster, type StartedCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

/** A cluster of three, and what shows the runs of its type `hold`. */
interface Setup extends StartedCluster {
  readonly runs: Runs;
  /** How often another node may have looked before it knows a thing. */
  readonly looksMax: number;
  /** How often each is tried. */
  readonly rounds: number;
}

// Those who are not told look at each whole second.
for (const { name, flags, looksMax, rounds } of [
  { name: "three daemons on one database", flags: [], looksMax: 0, rounds: 50 },
  {
    name: "three daemons that send no notifications",
    flags: ["--no-notify"],
    looksMax: 1,
    rounds: 10,
  },
]) {
  test(name, { skip, timeout: 240_000 }, async (t) => {
    const runs = await openRuns(t);
    const more = `${runs.type("hold")}\n[types.x]\nrunner = "worker"\nlease = "30s"\n`;
    const setup = { ...(await startCluster(t, { more, flags })), runs, looksMax, rounds };
    await revocation(t, setup);
    await posts(t, setup);
    await waits(t, setup);
    await workers(t, setup);
  });
}

async function revocation(t: TestContext, { cluster, at }: Setup): Promise<void> {
  await t.test("a key that one revokes is refused by another at its next request", async () => {
    for (let round = 0; round < 50; round++) {
      const [own, other] = [at(round % 3), cluster.node((round + 1) % 3)];
      const made = await own.call("/v1/appendix/keys", { method: "POST" });
      const { key } = (await made.json()) as { readonly key: { key: string; key_id: string } };
      const headers = { authorization: `Bearer ${key.key}` };
      const ask = (): Promise<Response> => fetch(`${other.url}/v1/tasks`, { headers });
      assert.equal((await ask()).status, 200);
      const path = `/v1/appendix/keys/${key.key_id}`;
      assert.equal((await own.call(path, { method: "DELETE" })).status, 200);
      assert.equal(await codeOf(await ask()), 40101, `round ${round}`);
    }
  });

  await t.test("who signs in at one is signed in at all, wherever they listen", async () => {
    const { login, key } = cluster.account;
    const headers = { "sec-fetch-site": "same-origin", "x-requested-with": "postbackd" };
    const opened = await fetch(`${cluster.node(0).url}/v1/session`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ login, key }),
    });
    const [cookie = ""] = opened.headers.getSetCookie();
    for (const { url } of cluster.nodes) {
      const asked = { headers: { ...headers, cookie: cookie.split(";")[0] ?? "" } };
      const answer = await fetch(`${url}/v1/appendix/user_data`, asked);
      assert.equal(await codeOf(answer), 20000, url);
    }
  });

  await t.test("a key that the command line revokes is refused at once", async () => {
    const made = await at(0).call("/v1/appendix/keys", { method: "POST" });
    const { key } = (await made.json()) as { readonly key: { key: string; key_id: string } };
    const words = ["admin", "key", "revoke", key.key_id, "--db", cluster.admin.database];
    const { error, stderr } = await runProgram(words, cluster.admin);
    assert.equal(error, null, stderr);
    const headers = { authorization: `Bearer ${key.key}` };
    for (const { url } of cluster.nodes) {
      assert.equal(await codeOf(await fetch(`${url}/v1/tasks`, { headers })), 40101);
    }
  });
}

async function posts(t: TestContext, { cluster, at }: Setup): Promise<void> {
  await t.test("an Idempotency-Key that comes to all at once makes one task", async () => {
    for (let round = 0; round < 10; round++) {
      const headers = { "idempotency-key": `once-${round}` };
      const init = { method: "POST", headers, body: '[{"type":"echo","input":1}]' };
      const answers = await Promise.all(
        cluster.nodes.map((_, i) => at(i).call("/v1/tasks/task_post", init)),
      );
      const texts = await Promise.all(answers.map((answer) => answer.text()));
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]), texts[0]);
      assert.equal(new Set(texts).size, 1);
      const replayed = answers.filter(({ headers: own }) => own.get("idempotent-replayed"));
      assert.equal(replayed.length, cluster.nodes.length - 1);
    }
  });
}

async function waits(
  t: TestContext,
  { cluster, at, runs, looksMax, rounds }: Setup,
): Promise<void> {
  await t.test("who waits at one is answered when another has ended the task", async (t) => {
    const lags: Lag[] = [];
    for (let round = 0; round < rounds; round++) {
      const id = await at(round % 3).post({ type: "hold" });
      const { node, finish } = await runs.next();
      const others = cluster.nodes.flatMap(({ folderName }, i) => (folderName === node ? [] : i));
      const waiting = others.map(async (i) => [await at(i).ended(id), Date.now()] as const);
      finish();
      for (const [task, knownAt] of await Promise.all(waiting)) {
        assert.deepEqual([task.state, task.result], ["completed", { node }]);
        lags.push({ from: Date.parse(task.completed_at ?? ""), to: knownAt });
      }
    }
    judge(t, lags, looksMax);
  });

  await t.test("a task that one cancels stops running at another", async (t) => {
    const lags: Lag[] = [];
    for (let round = 0; round < rounds; round++) {
      const id = await at(round % 3).post({ type: "hold" });
      const run = await runs.next();
      const other = cluster.nodes.findIndex(({ folderName }) => folderName !== run.node);
      const from = Date.now();
      await at(other).cancel(id);
      await run.ended;
      lags.push({ from, to: Date.now() });
      assert.equal((await at(other).get(id)).state, "cancelled");
    }
    judge(t, lags, looksMax);
  });

  await t.test("a change at one is an event at the others", async (t) => {
    const feeds = await Promise.all([1, 2].map((i) => openEvents(t, at(i))));
    for (const { events } of feeds) await events.change();
    const lags: Lag[] = [];
    const from = Date.now();
    await at(0).post({ type: "hold" });
    for (const { events } of feeds) {
      await events.change();
      lags.push({ from, to: Date.now() });
    }
    (await runs.next()).finish();
    // An event may wait a little for others that go with it.
    judge(t, lags, looksMax + 1);
  });
}

/** From what happened at one node to the moment when it was known at another. */
interface Lag {
  readonly from: number;
  readonly to: number;
}

/**
 * Tells how long it took, which is the machine's; and holds a third of it to so many looks: what needs one more when it
 * is told of nothing needs it each time.
 */
function judge(t: TestContext, lags: readonly Lag[], looksMax: number): void {
  const { count, p50Ms, p99Ms, maxMs } = spreadOf(lags.map(({ from, to }) => to - from));
  t.diagnostic(
    `known elsewhere: p50 ${p50Ms} ms of ${count}, p99 ${p99Ms} ms, at most ${maxMs} ms`,
  );
  const looksOf = ({ from, to }: Lag): number => Math.floor(to / 1000) - Math.floor(from / 1000);
  const soon = lags.filter((lag) => looksOf(lag) <= looksMax).length;
  assert.ok(soon >= count / 3, `only ${soon} of ${count} within ${looksMax} looks`);
}

async function workers(t: TestContext, { cluster, at }: Setup): Promise<void> {
  await t.test(
    "a worker claims at one, tells another that it lives, completes at a third",
    async () => {
      const token = await cluster.createWorker("press", ["x"]);
      const [first, second, third] = cluster.nodes.map(({ url }) => ({ url, token }));
      assert.ok(first !== undefined && second !== undefined && third !== undefined);
      const id = await at(1).post({ type: "x" });
      const [task] = await claim(first, { types: ["x"], wait_seconds: 30 });
      assert.equal(task?.id, id);
      const lease = { id, lease_id: task.lease_id };
      const ok: readonly ShownOutcome[] = [{ id, outcome: "ok" }];
      const kept = await outcomesOf(second, "heartbeat", { leases: [lease] });
      assert.deepEqual(
        kept.map(({ outcome }) => outcome),
        ["ok"],
      );
      const completion = { tasks: [{ ...lease, result: { done: true } }] };
      assert.deepEqual(await outcomesOf(third, "complete", completion), ok);
      assert.deepEqual((await at(0).get(id)).result, { done: true });
    },
  );
}

async function codeOf(response: Response): Promise<number> {
  const { status_code: code } = (await response.json()) as { readonly status_code: number };
  return code;
}
