import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";
import { startDev } from "./dev-client.ts";

test("rules that say nothing, too much or the impossible are refused with their place", async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, "postbackd.toml");
  writeFileSync(file, '[types.echo]\nrunner = "echo"\n[types.thumb]\nrunner = "worker"\n');
  const daemon = await startDev(t, "--config", file);

  for (const [body, said] of [
    [{}, "must be a list"],
    [[{}], "/0/hold A rule has exactly one"],
    [[{ result: 1 }, { result: 1, error: "x" }], "/1/result Give one of"],
    [[{ hold: true, after_ms: 5 }], "/0/after_ms A run that is held"],
    [[{ type: "eco", result: 1 }], "/0/type It must be a type"],
    [[{ type: "thumb", result: 1 }], "/0/type Workers run thumb"],
    [[{ resutl: 1 }], "/0/resutl"],
    [[{ result: 1, after_ms: -1 }], "/0/after_ms"],
  ] as const) {
    const answer = await daemon.call("PUT /dev/results", body);
    assert.ok([40501, 40503].includes(answer.code), JSON.stringify(answer.body));
    assert.ok(answer.detail.includes(said), answer.detail);
  }
});

test("the first rule that fits ends a run, its result digit for digit, and others are the runner's", async (t) => {
  const daemon = await startDev(t);
  const digits = '{"a":1.000000000000000000001,"b":[12345678901234567890]}';
  await daemon.ask(
    "PUT /dev/results",
    `[{"tag":"n","result":${digits}},{"tag":"e","error":"no video"},{"tag":"z","result":null}]`,
  );

  const [n = "", e = "", z = "", other = ""] = await daemon.post(
    { tag: "n" },
    { tag: "e" },
    { tag: "z", input: 5 },
    { tag: "o", input: 7 },
  );
  for (const id of [n, e, z, other]) await daemon.ask(`GET /dev/wait/${id}?for=ended`);
  const authorization = `Bearer ${daemon.ready.key}`;
  const url = `${daemon.ready.url}/v1/tasks/task_get/${n}`;
  const text = await (await fetch(url, { headers: { authorization } })).text();

  assert.ok(text.includes(`"result":${digits}`), text);
  const failed = await daemon.task(e);
  assert.deepEqual([failed.status_code, failed.error?.message], [50010, "no video"]);
  assert.equal((await daemon.task(z)).result, null);
  assert.equal((await daemon.task(other)).result, 7);
});

test("a run takes after_ms of the daemon's clock, which may move meanwhile, and no other time", async (t) => {
  const daemon = await startDev(t);
  await daemon.ask("PUT /dev/results", [{ result: 1, after_ms: 5000 }]);
  const [id = ""] = await daemon.post({});

  const early = await daemon.ask("POST /dev/clock/advance", { by: "4999ms" });
  assert.ok(early.events?.every(({ event }) => event === "run_started"));
  const { events } = await daemon.ask("POST /dev/clock/advance", { by: "1ms" });
  assert.deepEqual(
    events?.map((each) => [each.event, each.state]),
    [["task_ended", "completed"]],
  );
  assert.equal((await daemon.task(id)).state, "completed");
});

test("a run that takes longer than its type's timeout times out", async (t) => {
  const daemon = await startDev(t);
  await daemon.ask("PUT /dev/results", [{ hold: true }]);
  const [id = ""] = await daemon.post({});

  await daemon.ask("POST /dev/clock/advance", { by: "10m" });

  assert.equal((await daemon.task(id)).status_code, 50401);
});

test("a held task runs until it is finished, and its end is on disk when that is answered", async (t) => {
  const daemon = await startDev(t);
  await daemon.ask("PUT /dev/results", [{ hold: true }]);
  const [one = "", two = "", three = ""] = await daemon.post({}, {}, {});
  const late = await daemon.call(`GET /dev/wait/${one}?for=ended&timeout=0`);
  assert.equal(late.code, 40800);
  assert.match(late.detail, /The task is (queued|running)\./);

  await daemon.ask(`POST /dev/tasks/${one}/finish`, { result: [1] });
  await daemon.ask(`POST /dev/tasks/${two}/finish`, { error: "no" });
  await daemon.ask(`POST /v1/tasks/task_cancel/${three}`, {});

  assert.deepEqual((await daemon.task(one)).result, [1]);
  assert.equal((await daemon.task(two)).error?.message, "no");
  for (const [id, state] of [
    [one, "completed"],
    [three, "cancelled"],
  ] as const) {
    const again = await daemon.call(`POST /dev/tasks/${id}/finish`, { result: 2 });
    assert.equal(again.code, 40501);
    assert.ok(again.detail.includes(`is ${state}`), again.detail);
  }
  const unknown = one.replace(/.{4}$/, "0000");
  assert.equal((await daemon.call(`POST /dev/tasks/${unknown}/finish`, { result: 2 })).code, 40401);
  assert.equal((await daemon.call(`POST /dev/tasks/${one}/finish`, {})).code, 40501);
});
