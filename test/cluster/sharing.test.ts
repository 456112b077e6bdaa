import assert from "node:assert/strict";
import { test } from "node:test";

import { runProgram } from "../../scripts/kit/daemon.ts";
import { reasonToSkipPostgres } from "../helpers/postgres.ts";
import { openEvents } from "../http/event-stream.ts";
import { claim, outcomesOf } from "../http/worker-requests.ts";
import { openRuns } from "./runs.ts";
import { startCluster } from "./start.ts";

const how = { skip: reasonToSkipPostgres(), timeout: 240_000 };
const ROUNDS = 6;

test("three nodes on one database behave as one service", how, async (t) => {
  const runs = await openRuns(t);
  const more = `${runs.type("hold")}\n[types.x]\nrunner = "worker"\nlease = "30s"\n`;
  const { cluster, at } = await startCluster(t, { more });
  const codeAt = async (index: number, headers: Record<string, string>): Promise<number> => {
    const response = await fetch(`${cluster.node(index % 3).url}/v1/tasks`, { headers });
    return ((await response.json()) as { readonly status_code: number }).status_code;
  };
  const newKey = async (index: number): Promise<{ key: string; key_id: string }> => {
    const made = await at(index).call("/v1/appendix/keys", { method: "POST" });
    return ((await made.json()) as { readonly key: { key: string; key_id: string } }).key;
  };

  await t.test("a key revoked at one node is refused by the next request at another", async () => {
    for (let round = 0; round < 50; round++) {
      const own = round % 3;
      const { key, key_id: keyId } = await newKey(own);
      const headers = { authorization: `Bearer ${key}` };
      assert.equal(await codeAt(round + 1, headers), 20000);
      await at(own).call(`/v1/appendix/keys/${keyId}`, { method: "DELETE" });
      assert.equal(await codeAt(round + 1, headers), 40101, `round ${round}`);
    }
  });

  await t.test("a key that the command line revokes is refused at every node", async () => {
    const { key, key_id: keyId } = await newKey(0);
    const words = ["admin", "key", "revoke", keyId, "--db", cluster.admin.database];
    const { error, stderr } = await runProgram(words, cluster.admin);
    assert.equal(error, null, stderr);
    for (const i of [0, 1, 2])
      assert.equal(await codeAt(i, { authorization: `Bearer ${key}` }), 40101);
  });

  await t.test("a session that begins at one node is valid at all nodes", async () => {
    const { login, key } = cluster.account;
    const headers = { "sec-fetch-site": "same-origin", "x-requested-with": "postbackd" };
    const opened = await fetch(`${cluster.node(0).url}/v1/session`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ login, key }),
    });
    const [cookie = ""] = opened.headers.getSetCookie();
    for (const i of [0, 1, 2])
      assert.equal(await codeAt(i, { ...headers, cookie: cookie.split(";")[0] ?? "" }), 20000);
  });

  await t.test(
    "an Idempotency-Key that all nodes get at the same time creates one task",
    async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const headers = { "idempotency-key": `once-${round}` };
        const init = { method: "POST", headers, body: '[{"type":"echo","input":1}]' };
        const responses = await Promise.all(
          [0, 1, 2].map((i) => at(i).call("/v1/tasks/task_post", init)),
        );
        const texts = await Promise.all(responses.map((response) => response.text()));
        assert.equal(new Set(texts).size, 1, texts.join());
        assert.match(texts[0] ?? "", /"status_code":20000/);
        const replayed = responses.filter((each) => each.headers.get("idempotent-replayed"));
        assert.equal(replayed.length, 2);
      }
    },
  );

  await t.test("a wait at one node ends when another node has ended the task", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const id = await at(round % 3).post({ type: "hold" });
      const { node, finish } = await runs.next();
      const others = cluster.nodes.flatMap(({ folderName }, i) => (folderName === node ? [] : i));
      const waiting = others.map((i) => at(i).ended(id));
      finish();
      for (const { state, result } of await Promise.all(waiting))
        assert.deepEqual([state, result], ["completed", { node }]);
    }
  });

  await t.test("a task that one node cancels stops running at another", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const id = await at(round % 3).post({ type: "hold" });
      const run = await runs.next();
      const other = cluster.nodes.findIndex(({ folderName }) => folderName !== run.node);
      await at(other).cancel(id);
      await run.ended;
      assert.equal((await at(other).get(id)).state, "cancelled");
    }
  });

  await t.test("a change at one node is an event at the others", async () => {
    const feeds = await Promise.all([1, 2].map((i) => openEvents(t, at(i))));
    for (const { events } of feeds) await events.change();
    await at(0).post({ type: "hold" });
    for (const { events } of feeds) await events.change();
    (await runs.next()).finish();
  });

  await t.test("a worker claims, sends a heartbeat and completes at three nodes", async () => {
    const token = await cluster.createWorker("press", ["x"]);
    const [first, second, third] = cluster.nodes.map(({ url }) => ({ url, token }));
    assert.ok(first !== undefined && second !== undefined && third !== undefined);
    const id = await at(1).post({ type: "x" });
    const [task] = await claim(first, { types: ["x"], wait_seconds: 30 });
    const lease = { id, lease_id: task?.lease_id ?? "" };
    const [beat] = await outcomesOf(second, "heartbeat", { leases: [lease] });
    const [end] = await outcomesOf(third, "complete", { tasks: [{ ...lease, result: { a: 1 } }] });
    assert.deepEqual([beat?.outcome, end?.outcome], ["ok", "ok"]);
    assert.deepEqual((await at(0).get(id)).result, { a: 1 });
  });
});
