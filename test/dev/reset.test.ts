import assert from "node:assert/strict";
import { test } from "node:test";

import { startReceiver } from "../helpers/receiver.ts";
import { startDev } from "./dev-client.ts";

test("a reset erases tasks in every state, and sends nothing of them any more", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "hang" } });
  const failing = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const { advance, ask, call, post, ready } = await startDev(t);
  await ask("PUT /dev/results", [{ tag: "held", hold: true }]);
  await ask("PUT /dev/faults", { duplicate: 1 });
  const postOnce = async (): Promise<string> => {
    const authorization = `Bearer ${ready.key}`;
    const headers = { authorization, "content-type": "application/json", "idempotency-key": "k" };
    const init = { method: "POST", headers, body: "{}" };
    return (await fetch(`${ready.url}/v1/tasks/task_post`, init)).text();
  };
  const kept = await postOnce();
  const { now = "" } = await ask("GET /dev/clock");
  const ids = await post(
    { postback_url: receiver.url("/hangs") },
    { postback_url: failing.url("/fails") },
    { tag: "held", postback_url: failing.url("/held") },
    { start_at: new Date(Date.parse(now) + 3600_000).toISOString() },
    { input: "done" },
  );
  await Promise.all([receiver.waitFor(1), failing.waitFor(2)]);

  const { tasks_erased: erased } = await ask("POST /dev/reset");

  assert.equal(erased, ids.length + 1);
  assert.deepEqual((await ask("GET /v1/tasks/tasks_ready")).tasks, []);
  assert.deepEqual((await ask("GET /v1/tasks")).tasks, []);
  assert.deepEqual((await ask("GET /dev/clock")).next, []);
  assert.equal((await ask("GET /dev/faults")).duplicate, 0);
  for (const id of ids) assert.equal((await call(`GET /v1/tasks/task_get/${id}`)).code, 40401);
  const counts = JSON.stringify({ ...(await ask("GET /v1/appendix/user_data")), limits: null });
  assert.doesNotMatch(counts, /"(queued|running|completed|failed|cancelled|bytes)":[1-9]/);

  const before = [receiver.requests.length, failing.requests.length];
  assert.deepEqual(await advance("1h"), []);
  assert.deepEqual([receiver.requests.length, failing.requests.length], before);
  assert.notEqual(await postOnce(), kept);
});

test("after a reset new tasks of an account run and deliver their webhooks", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t);
  await ask("PUT /dev/results", [{ hold: true }]);
  await post({}, {});
  await ask("POST /dev/reset", {});

  const [id = ""] = await post({ postback_url: receiver.url("/new") });
  const { deliveries } = await ask(`GET /dev/wait/${id}?for=delivered`);

  assert.equal(deliveries?.[0]?.state, "delivered");
  assert.equal((await ask("POST /dev/reset")).tasks_erased, 1);
  assert.equal((await ask("POST /dev/reset")).tasks_erased, 0);
});
