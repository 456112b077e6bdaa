import assert from "node:assert/strict";
import { test } from "node:test";

import { createDaemon } from "postbackd";

import { farStart } from "../helpers/far-start.ts";
import { runProgram } from "../helpers/program.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { taskClient } from "../helpers/task-client.ts";
import { openHeldProcesses } from "../run/command-run.ts";
import { holdType, openPlace } from "./place.ts";
import { KINDS } from "./run-kinds.ts";

for (const [name, makeKind] of Object.entries(KINDS)) {
  test(`a cancelled ${name} task stops if it runs, never starts if it waits, and sends no webhook`, async (t) => {
    const kind = await makeKind(t);
    const receiver = await startReceiver(t);
    const config = { webhooks: { allow: ["127.0.0.1"] } };
    const daemon = await createDaemon({ types: { x: kind.type }, config });
    t.after(() => daemon.stop({ graceMs: 0 }));
    const { key } = await daemon.account();
    const client = taskClient({ url: daemon.url, key });
    const task = { type: "x", postback_url: receiver.url("/done") };

    const running = await client.post(task);
    const run = await kind.next(daemon);
    const queued = await client.post(task);
    const delayed = await client.post({ ...task, start_at: farStart() });
    const last = await client.post(task);
    for (const id of [queued, delayed, running]) await client.cancel(id);
    await run.told("cancelled");
    await (await kind.next(daemon)).finish();

    const done = await client.ended(last);
    assert.deepEqual([done.state, done.runs], ["completed", 1]);
    for (const [id, runs] of [
      [running, 1],
      [queued, 0],
      [delayed, 0],
    ] as const) {
      const shown = await client.get(id);
      assert.deepEqual([shown.state, shown.status_code, shown.runs], ["cancelled", 40901, runs]);
      await client.cancel(id);
    }
    const tooLate = await client.call(`/v1/tasks/task_cancel/${last}`, { method: "POST" });
    assert.equal(tooLate.status, 409);
    await daemon.idle();
    const sent = receiver.requests.map(({ rawBody }) => JSON.parse(rawBody.toString()).tasks[0].id);
    assert.deepEqual(sent, [last]);
    const ready = await (await client.call("/v1/tasks/tasks_ready")).text();
    assert.ok(ready.includes(last) && ready.includes('"tasks_count":1,'), ready);
  });
}

test("'admin task cancel' stops a running command, ends a wait for its task, and frees its slot", async (t) => {
  const held = await openHeldProcesses(t);
  const place = await openPlace(t, `${holdType(held)}concurrency = 1\n`);
  const { client } = await place.start();
  const id = await client.post({});
  const running = await held.next();
  const next = await client.post({});
  const waiting = client.ended(id);

  const { code, stderr } = await runProgram(t, ["admin", "task", "cancel", id], place);

  assert.deepEqual({ code, stderr }, { code: 0, stderr: "" });
  await running.ended;
  assert.equal((await waiting).state, "cancelled");
  (await held.next()).socket.end();
  assert.equal((await client.ended(next)).state, "completed");
});
