import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { openRaw, toBytes } from "../helpers/raw-http.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { startDev } from "./dev-client.ts";

test("a wait is 40401 for an unknown id and 40000 for a stage or a time that there is not", async (t) => {
  const daemon = await startDev(t);
  const [id = ""] = await daemon.post({});

  for (const unknown of [id.replace(/.{4}$/, "0000"), "x"]) {
    assert.equal((await daemon.call(`GET /dev/wait/${unknown}`)).code, 40401);
  }
  for (const query of ["for=done", "timeout=61", "timeout=-1"]) {
    assert.equal((await daemon.call(`GET /dev/wait/${id}?${query}`)).code, 40000);
  }
});

test("a wait ends with the task, with its webhooks, or when none of them is to be sent any more", async (t) => {
  const receiver = await startReceiver(t);
  const daemon = await startDev(t);
  receiver.answerNext({ kind: "status", status: 500 });
  const [id = ""] = await daemon.post({ postback_url: receiver.url("/a") });

  const ended = await daemon.ask(`GET /dev/wait/${id}?for=ended`);
  assert.equal(ended.task?.state, "completed");
  await receiver.waitFor(1);
  const waits = ["delivered", "settled"].map((stage) =>
    daemon.ask(`GET /dev/wait/${id}?for=${stage}`),
  );
  await daemon.ask("POST /dev/clock/advance", { until: "idle" });
  for (const { deliveries } of await Promise.all(waits)) {
    assert.equal(deliveries?.[0]?.state, "delivered");
    assert.equal(deliveries?.[0]?.attempts.length, 2);
  }
});

test("what is given up will not be delivered: that is told at once, with how far it came", async (t) => {
  const receiver = await startReceiver(t, { reply: { kind: "status", status: 500 } });
  const daemon = await startDev(t);
  const [id = ""] = await daemon.post({ postback_url: receiver.url("/a") });
  await receiver.waitFor(1);
  const early = await daemon.call(`GET /dev/wait/${id}?for=delivered&timeout=0`);
  assert.equal(early.code, 40800);
  assert.ok(early.detail.includes("POST /dev/clock/advance"), early.detail);

  await daemon.ask("POST /dev/clock/advance", { until: "idle" });
  const { code, detail } = await daemon.call(`GET /dev/wait/${id}?for=delivered&timeout=60`);
  assert.equal(code, 40800);
  assert.ok(detail.includes("given up after"), detail);
  assert.equal((await daemon.ask(`GET /dev/wait/${id}?for=settled`)).task?.id, id);
});

test("a wait for the delivery of a task without one is 40800 immediately", async (t) => {
  const daemon = await startDev(t);
  const { body } = await daemon.call("POST /v1/tasks/task_post", [
    { postback_url: "http://receiver..example/" },
    {},
  ]);
  for (const { id } of body.tasks ?? []) {
    const { code, detail } = await daemon.call(`GET /dev/wait/${id}?for=delivered&timeout=60`);
    assert.equal(code, 40800);
    assert.ok(detail.includes("no webhook"), detail);
    assert.equal((await daemon.ask(`GET /dev/wait/${id}?for=settled`)).task?.id, id);
  }
  assert.equal(body.tasks?.length, 2);
});

test("a wait ends when the task is cancelled, and when its client leaves", async (t) => {
  const file = join(temporaryFolder(t), "postbackd.toml");
  writeFileSync(file, "[log]\nrequests = true\n");
  const daemon = await startDev(t, "--config", file);
  await daemon.ask("PUT /dev/results", [{ hold: true }]);
  const [id = ""] = await daemon.post({});
  const leaving = await openRaw(t, daemon.ready.url);
  // The daemon has taken the connection in: what comes by it now is read before what comes later by another.
  leaving.send(toBytes({ target: "/livez" }));
  await leaving.next();
  leaving.send(toBytes({ target: `/dev/wait/${id}?for=ended&timeout=60` }));
  const waiting = daemon.ask(`GET /dev/wait/${id}?for=ended&timeout=60`);
  await daemon.ask("GET /dev/clock");

  leaving.reset();
  // Told when the request has ended: long before its 60 s, and without an answer.
  await daemon.program.says('"path":"/dev/wait/:task_id"');
  const told = daemon.program.stderr.split("\n").filter((line) => line.includes("/dev/wait/"));
  await daemon.ask(`POST /v1/tasks/task_cancel/${id}`, {});

  assert.equal((await waiting).task?.state, "cancelled");
  assert.equal(told.length, 1);
  assert.match(told[0] ?? "", /"bytes":0,"whole":false/);
});
