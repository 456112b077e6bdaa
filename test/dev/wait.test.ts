import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { openRaw, toBytes } from "../helpers/raw-http.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { startDev, startDevProgram } from "./dev-client.ts";

test("a wait is 40401 for an unknown id, and 40000 for an unknown stage or time", async (t) => {
  const { call, post } = await startDev(t);
  const [id = ""] = await post({});

  for (const unknown of [id.replace(/.{4}$/, "0000"), "x"])
    assert.equal((await call(`GET /dev/wait/${unknown}`)).code, 40401);
  for (const query of ["for=done", "timeout=61", "timeout=-1"])
    assert.equal((await call(`GET /dev/wait/${id}?${query}`)).code, 40000);
});

test("a wait ends with the task, with its webhooks, or when no webhook is left to send", async (t) => {
  const receiver = await startReceiver(t);
  const { ask, post } = await startDev(t);
  receiver.answerNext({ kind: "status", status: 500 });
  const [id = ""] = await post({ postback_url: receiver.url("/a") });

  const ended = await ask(`GET /dev/wait/${id}?for=ended`);
  assert.equal(ended.task?.state, "completed");
  await receiver.waitFor(1);
  const waits = ["delivered", "settled"].map((stage) => ask(`GET /dev/wait/${id}?for=${stage}`));
  await ask("POST /dev/clock/advance", { until: "idle" });
  for (const { deliveries } of await Promise.all(waits)) {
    const [delivery] = deliveries ?? [];
    assert.deepEqual([delivery?.state, delivery?.attempts.length], ["delivered", 2]);
  }
});

test("a wait for a delivery is 40800 immediately once it is given up", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const { ask, call, post } = await startDev(t);
  const [id = ""] = await post({ postback_url: receiver.url("/a") });
  await receiver.waitFor(1);
  const early = await call(`GET /dev/wait/${id}?for=delivered&timeout=0`);
  assert.equal(early.code, 40800);
  assert.ok(early.detail.includes("POST /dev/clock/advance"), early.detail);

  await ask("POST /dev/clock/advance", { until: "idle" });
  const { code, detail } = await call(`GET /dev/wait/${id}?for=delivered&timeout=60`);
  assert.equal(code, 40800);
  assert.ok(detail.includes("given up"), detail);
  assert.equal((await ask(`GET /dev/wait/${id}?for=settled`)).task?.id, id);
});

test("a wait for the delivery of a task without a webhook is 40800 immediately", async (t) => {
  const { ask, call } = await startDev(t);
  const refused = { postback_url: "http://receiver..example/" };
  const { body } = await call("POST /v1/tasks/task_post", [refused, {}]);
  assert.equal(body.tasks?.length, 2);
  for (const { id } of body.tasks ?? []) {
    const { code } = await call(`GET /dev/wait/${id}?for=delivered&timeout=60`);
    assert.equal(code, 40800);
    assert.equal((await ask(`GET /dev/wait/${id}?for=settled`)).task?.id, id);
  }
});

test("a wait ends when the task is cancelled, and when its client disconnects", async (t) => {
  const file = join(temporaryFolder(t), "postbackd.toml");
  writeFileSync(file, "[log]\nrequests = true\n");
  const { ask, post, program, ready } = await startDevProgram(t, "--config", file);
  await ask("PUT /dev/results", [{ hold: true }]);
  const [id = ""] = await post({});
  const leaving = await openRaw(t, ready.url);
  // After this response the daemon reads this connection before a later request of another.
  leaving.send(toBytes({ target: "/livez" }));
  await leaving.next();
  leaving.send(toBytes({ target: `/dev/wait/${id}?for=ended&timeout=60` }));
  const waiting = ask(`GET /dev/wait/${id}?for=ended&timeout=60`);
  await ask("GET /dev/clock");

  leaving.reset();
  await program.says('"path":"/dev/wait/:task_id"');
  const logged = program.stderr.split("\n").filter((line) => line.includes("/dev/wait/"));
  await ask(`POST /v1/tasks/task_cancel/${id}`, {});

  assert.equal((await waiting).task?.state, "cancelled");
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? "", /"bytes":0,"whole":false/);
});
