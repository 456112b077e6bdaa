import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { runProgram } from "../../scripts/kit/daemon-process.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { openEvents } from "../http/event-stream.ts";
import { claim, outcomesOf, type ShownOutcome } from "../http/worker-requests.ts";
import { openRuns, type Runs } from "./runs.ts";
import { startCluster, type StartedCluster } from "./start.ts";

const skip = reasonToSkipPostgres();

/** A cluster of three, and what shows the runs of its type `hold`. */
interface Setup extends StartedCluster {
  readonly runs: Runs;
  /** What another node may know a thing later, in milliseconds. */
  readonly lagMs: number;
}

// Contract §11: else within 2 s. Those who are not told look once a second.
for (const { name, flags, lagMs } of [
  { name: "three daemons on one database", flags: [], lagMs: 2000 },
  { name: "three daemons that send no notifications", flags: ["--no-notify"], lagMs: 3000 },
]) {
  test(name, { skip, timeout: 240_000 }, async (t) => {
    const runs = await openRuns(t);
    const more = `${runs.type("hold")}\n[types.x]\nrunner = "worker"\nlease = "30s"\n`;
    const setup = { ...(await startCluster(t, { more, flags })), runs, lagMs };
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

async function waits(t: TestContext, { at, runs, lagMs }: Setup): Promise<void> {
  await t.test("who waits at one is answered when another has ended the task", async () => {
    const id = await at(0).post({ type: "hold" });
    const { node, finish } = await runs.next();
    const waiting = [0, 1, 2].map(async (i) => [await at(i).ended(id), Date.now()] as const);
    finish();
    const ends = await Promise.all(waiting);
    for (const [task, heardAt] of ends) {
      assert.deepEqual([task.state, task.result], ["completed", { node }]);
      assert.ok(heardAt - Date.parse(task.completed_at ?? "") <= lagMs, `${heardAt}`);
    }
  });

  await t.test("a task that one cancels stops running at another", async () => {
    for (const i of [0, 1, 2]) {
      const id = await at(i).post({ type: "hold" });
      const run = await runs.next();
      const askedAt = Date.now();
      await at((i + 1) % 3).cancel(id);
      await run.ended;
      assert.ok(Date.now() - askedAt <= lagMs, `${Date.now() - askedAt} ms`);
      assert.equal((await at(i).get(id)).state, "cancelled");
    }
  });

  await t.test("a change at one is an event at the others", async (t) => {
    const feeds = await Promise.all([1, 2].map((i) => openEvents(t, at(i))));
    for (const { events } of feeds) await events.change();
    const postedAt = Date.now();
    await at(0).post({ type: "hold" });
    for (const { events } of feeds) await events.change();
    assert.ok(Date.now() - postedAt <= lagMs, `${Date.now() - postedAt} ms`);
    (await runs.next()).finish();
  });
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
