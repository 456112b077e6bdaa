import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { openRaw, toBytes } from "../helpers/raw-http.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { startDev, startDevProgram } from "./dev-client.ts";

test("a rule that is empty, ambiguous or impossible is refused with its pointer", async (t) => {
  const types = { echo: { runner: "echo" }, thumb: { runner: "worker" } } as const;
  const { call } = await startDev(t, { types });

  for (const [body, pointer] of [
    [{}, ""],
    [[{}], "/0/hold"],
    [[{ result: 1 }, { result: 1, error: "x" }], "/1/result"],
    [[{ hold: true, after_ms: 5 }], "/0/after_ms"],
    [[{ type: "eco", result: 1 }], "/0/type"],
    [[{ type: "thumb", result: 1 }], "/0/type"],
    [[{ resutl: 1 }], "/0/resutl"],
    [[{ result: 1, after_ms: -1 }], "/0/after_ms"],
  ] as const) {
    const { code, detail } = await call("PUT /dev/results", body);
    assert.ok([40501, 40503].includes(code), `${code} ${detail}`);
    assert.ok(detail.startsWith(pointer), detail);
  }
});

test("the first matching rule ends a run, its result digit for digit; other runs are the runner's", async (t) => {
  const { ask, post, ready, task } = await startDev(t);
  const digits = '{"a":1.000000000000000000001,"b":[12345678901234567890]}';
  const rules = `{"tag":"n","result":${digits}},{"tag":"e","error":"no video"},{"tag":"z","result":null}`;
  await ask("PUT /dev/results", `[${rules}]`);

  const [n = "", e = "", z = "", other = ""] = await post(
    ...[{ tag: "n" }, { tag: "e" }, { tag: "z", input: 5 }, { tag: "o", input: 7 }],
  );
  for (const id of [n, e, z, other]) await ask(`GET /dev/wait/${id}?for=ended`);
  const headers = { authorization: `Bearer ${ready.key}` };
  const response = await fetch(`${ready.url}/v1/tasks/task_get/${n}`, { headers });

  assert.ok((await response.text()).includes(`"result":${digits}`));
  const failed = await task(e);
  assert.deepEqual([failed.status_code, failed.error?.message], [50010, "no video"]);
  assert.deepEqual([(await task(z)).result, (await task(other)).result], [null, 7]);
});

test("a held run times out after the timeout of its type", async (t) => {
  const { advance, ask, post, task } = await startDev(t);
  await ask("PUT /dev/results", [{ hold: true }]);
  const [id = ""] = await post({});

  await advance("10m");

  assert.equal((await task(id)).status_code, 50401);
});

test("a held task runs until it is finished, and is on disk when the response arrives", async (t) => {
  const { ask, call, post, task } = await startDev(t);
  await ask("PUT /dev/results", [{ hold: true }]);
  const [one = "", two = "", three = ""] = await post({}, {}, {});
  assert.equal((await call(`GET /dev/wait/${one}?for=ended&timeout=0`)).code, 40800);

  await ask(`POST /dev/tasks/${one}/finish`, { result: [1] });
  await ask(`POST /dev/tasks/${two}/finish`, { error: "no" });
  await ask(`POST /v1/tasks/task_cancel/${three}`, {});

  assert.deepEqual((await task(one)).result, [1]);
  assert.equal((await task(two)).error?.message, "no");
  for (const [id, body, code, word] of [
    [one, { result: 2 }, 40501, "completed"],
    [three, { result: 2 }, 40501, "cancelled"],
    [one.replace(/.{4}$/, "0000"), { result: 2 }, 40401, ""],
    [one, {}, 40501, ""],
  ] as const) {
    const again = await call(`POST /dev/tasks/${id}/finish`, body);
    assert.equal(again.code, code);
    assert.ok(again.detail.includes(word), again.detail);
  }
});

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
