import assert from "node:assert/strict";
import { test } from "node:test";

import { startDev } from "./dev-client.ts";

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

test("a run takes after_ms of the daemon's clock", async (t) => {
  const { advance, ask, post, task } = await startDev(t);
  await ask("PUT /dev/results", [{ result: 1, after_ms: 5000 }]);
  const [id = ""] = await post({});

  const early = await advance("4999ms");
  assert.ok(early.every(({ event }) => event === "run_started"));
  const late = await advance("1ms");
  assert.deepEqual(
    late.map(({ event, state }) => [event, state]),
    [["task_ended", "completed"]],
  );
  assert.equal((await task(id)).state, "completed");
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
